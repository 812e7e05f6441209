-- The lane of a ready message with this id, in one queue or (NULL) in any. The key begins with the lane, so the lanes
-- are searched one after the other, with one or two probes each, 100,000 at most. A probe finds the id in its lane, or
-- the next id there, or the head of the next lane. A lane that begins after the id is skipped.
CREATE OR REPLACE FUNCTION stafette.find_in_ready(in_queue integer, message_id bigint)
RETURNS TABLE (queue_id integer, receiver_id integer, rank smallint)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    first_queue integer := coalesce(in_queue, 0);
    last_queue  integer := coalesce(in_queue, 2147483647);
BEGIN
    RETURN QUERY
    WITH RECURSIVE probe AS (
        (SELECT r.queue_id, r.receiver_id, r.rank, r.id
         FROM stafette.ready AS r
         WHERE (r.queue_id, r.receiver_id, r.rank, r.id) >= (first_queue, 0, 0, message_id) AND r.queue_id <= last_queue
         ORDER BY r.queue_id, r.receiver_id, r.rank, r.id LIMIT 1)
        UNION ALL
        SELECT further.queue_id, further.receiver_id, further.rank, further.id
        FROM probe AS p
        CROSS JOIN LATERAL (
            SELECT r.queue_id, r.receiver_id, r.rank, r.id
            FROM stafette.ready AS r
            WHERE (r.queue_id, r.receiver_id, r.rank, r.id)
                  >= (p.queue_id, p.receiver_id, p.rank + CASE WHEN p.id < message_id THEN 0 ELSE 1 END, message_id)
              AND r.queue_id <= last_queue
            ORDER BY r.queue_id, r.receiver_id, r.rank, r.id LIMIT 1
        ) AS further
        WHERE p.id <> message_id
    )
    SELECT p.queue_id, p.receiver_id, p.rank
    FROM (SELECT * FROM probe LIMIT 100000) AS p WHERE p.id = message_id;
END
$$;
