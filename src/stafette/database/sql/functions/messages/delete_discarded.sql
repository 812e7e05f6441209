-- Maintenance: deletes up to `at_most` messages of a queue or to a client that was deleted, or of before a purge, from
-- `grace` seconds after that. Returns their number, and how much is still on the list. Each broker takes another entry.
--
-- Every step is a range of one index that begins where the last one ended. Nothing can be added to it.
CREATE OR REPLACE FUNCTION stafette.delete_discarded(at_most integer, grace double precision)
RETURNS TABLE (messages bigint, entries bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_custom_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    entry   stafette.discarded;
    by_lane boolean;
    reached bigint[];
    last    bigint[];
    key     text;
    high    text;
    deleted bigint := 0;
BEGIN
    SELECT * INTO entry FROM stafette.discarded AS d
    WHERE d.at <= now() - grace * interval '1 second' ORDER BY d.at LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        by_lane := entry.state = 'ready' AND entry.owner = 'receiver';      -- one queue after the other
        reached := coalesce(entry.reached, CASE WHEN by_lane THEN stafette.lane_after(0, entry.id)
                                                WHEN entry.state = 'ready' THEN ARRAY[entry.id, -1, -1, 0]
                                                ELSE ARRAY[entry.id, 0] END);
        key := CASE WHEN entry.state = 'ready' THEN 'm.store_id, m.receiver_id, m.rank, m.id'
                    WHEN entry.owner = 'receiver' THEN 'm.receiver_id, m.id'
                    WHEN entry.state = 'delayed' THEN 'm.store_id, m.id'
                    ELSE 'm.queue_id, m.id' END;
        high := CASE WHEN by_lane THEN '(m.store_id, m.receiver_id) <= ($1[1], $1[2])'
                     WHEN entry.owner = 'receiver' THEN 'm.receiver_id <= $1[1] AND m.receiver_id <> 0'
                     ELSE split_part(key, ',', 1) || ' <= $1[1]' END;
        EXECUTE format('
            WITH step AS MATERIALIZED (
                SELECT m.ctid AS tid, ARRAY[%2$s]::bigint[] AS key, row_number() OVER () AS number
                FROM (SELECT m.ctid, m.* FROM stafette.%1$I AS m
                      WHERE (%2$s) > ($1[1], $1[2] %3$s) AND %4$s ORDER BY %2$s LIMIT $2) AS m
            ), gone AS (
                DELETE FROM stafette.%1$I AS m WHERE m.ctid = ANY (ARRAY(SELECT s.tid FROM step AS s))
            )
            SELECT s.number, s.key FROM step AS s ORDER BY s.number DESC LIMIT 1',
            entry.state, key, CASE WHEN entry.state = 'ready' THEN ', $1[3], $1[4]' END, high)
        INTO deleted, last USING reached, at_most;
        deleted := coalesce(deleted, 0);
        IF deleted < at_most THEN
            last := CASE WHEN by_lane THEN stafette.lane_after(reached[1]::integer, entry.id) END;
        END IF;
        IF last IS NULL THEN
            DELETE FROM stafette.discarded AS d
            WHERE (d.state, d.owner, d.id) = (entry.state, entry.owner, entry.id);
        ELSE
            UPDATE stafette.discarded AS d SET reached = last
            WHERE (d.state, d.owner, d.id) = (entry.state, entry.owner, entry.id);
        END IF;
    END IF;
    RETURN QUERY SELECT deleted, count(*) FROM stafette.discarded;
END
$$;
