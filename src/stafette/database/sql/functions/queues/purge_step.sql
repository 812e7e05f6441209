-- One step of a purge in a queue that holds messages for others: looks at up to `at_most` messages, and deletes those that
-- the client may purge and that were sent before the first step. Returns how many, and where the next step begins; NULL
-- after the last. Delayed messages come first, because they may become ready meanwhile. A message that somebody is
-- taking at this moment is left to them.
--
-- A position is the newest message before the first step, then the key of the last row looked at: of delayed an id, of
-- ready a lane, a rank and an id.
CREATE OR REPLACE FUNCTION stafette.purge_step(client integer, queue text, reached bigint[], at_most integer)
RETURNS TABLE (deleted bigint, next_step bigint[])
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    target    stafette.queues;
    newest    bigint := coalesce(reached[1], pg_sequence_last_value('stafette.message_id'), 0);
    looked_at integer;
    last      bigint[];
BEGIN
    PERFORM stafette.lock_catalog();
    target := stafette.may_purge(client, queue);

    IF reached IS NULL OR cardinality(reached) = 2 THEN
        WITH step AS MATERIALIZED (
            SELECT d.ctid AS tid, d.id, d.receiver_id, d.sender_id FROM stafette.delayed AS d
            WHERE (d.store_id, d.id) > (target.store_id, coalesce(reached[2], 0))
              AND (d.store_id, d.id) <= (target.store_id, newest)
            ORDER BY d.store_id, d.id LIMIT at_most
        ), purged AS MATERIALIZED (
            SELECT d.ctid AS tid FROM stafette.delayed AS d
            WHERE d.ctid = ANY (ARRAY(
                SELECT s.tid FROM step AS s
                WHERE (s.receiver_id IN (0, client) OR s.sender_id = client)
                  AND s.receiver_id NOT IN (SELECT stafette.discarded_receivers('delayed'))))
            FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM stafette.delayed AS d WHERE d.ctid = ANY (ARRAY(SELECT p.tid FROM purged AS p))
        )
        SELECT (SELECT count(*) FROM purged), count(*), ARRAY[newest, max(s.id)] INTO deleted, looked_at, last
        FROM step AS s;
        next_step := CASE WHEN looked_at = at_most THEN last ELSE ARRAY[newest, -1, 0, 0] END;
    ELSE
        WITH step AS MATERIALIZED (
            SELECT r.ctid AS tid, r.receiver_id, r.rank, r.id, r.sender_id, row_number() OVER () AS number
            FROM (SELECT r.ctid, r.* FROM stafette.ready AS r
                  WHERE (r.store_id, r.receiver_id, r.rank, r.id) > (target.store_id, reached[2], reached[3], reached[4])
                    AND r.store_id <= target.store_id
                  ORDER BY r.store_id, r.receiver_id, r.rank, r.id LIMIT at_most) AS r
        ), purged AS MATERIALIZED (
            SELECT r.ctid AS tid FROM stafette.ready AS r
            WHERE r.ctid = ANY (ARRAY(
                SELECT s.tid FROM step AS s
                WHERE s.id <= newest AND (s.receiver_id IN (0, client) OR s.sender_id = client)
                  AND s.receiver_id NOT IN (SELECT stafette.discarded_receivers('ready'))))
            FOR UPDATE SKIP LOCKED
        ), gone AS (
            DELETE FROM stafette.ready AS r WHERE r.ctid = ANY (ARRAY(SELECT p.tid FROM purged AS p))
        )
        SELECT (SELECT count(*) FROM purged), s.number, ARRAY[newest, s.receiver_id, s.rank, s.id]
        INTO deleted, looked_at, last
        FROM step AS s WHERE s.number = (SELECT max(l.number) FROM step AS l);
        next_step := CASE WHEN looked_at = at_most THEN last END;
    END IF;
    deleted := coalesce(deleted, 0);
    RETURN NEXT;
END
$$;
