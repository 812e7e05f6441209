-- The lane of a ready message with this id, in one store or (NULL) in any. The key begins with the lane, so the lanes
-- are searched one after the other, with one or two probes each, 100,000 at most. A probe finds the id in its lane, or
-- the next id there, or the head of the next lane. A lane that begins after the id is skipped.
CREATE OR REPLACE FUNCTION stafette.find_in_ready(in_store integer, message_id bigint)
RETURNS TABLE (store_id integer, receiver_id integer, rank smallint)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
DECLARE
    first_store integer := coalesce(in_store, 0);
    last_store  integer := coalesce(in_store, 2147483647);
BEGIN
    RETURN QUERY
    WITH RECURSIVE probe AS (
        (SELECT r.store_id, r.receiver_id, r.rank, r.id
         FROM stafette.ready AS r
         WHERE (r.store_id, r.receiver_id, r.rank, r.id) >= (first_store, 0, 0, message_id) AND r.store_id <= last_store
         ORDER BY r.store_id, r.receiver_id, r.rank, r.id LIMIT 1)
        UNION ALL
        SELECT further.store_id, further.receiver_id, further.rank, further.id
        FROM probe AS p
        CROSS JOIN LATERAL (
            SELECT r.store_id, r.receiver_id, r.rank, r.id
            FROM stafette.ready AS r
            WHERE (r.store_id, r.receiver_id, r.rank, r.id)
                  >= (p.store_id, p.receiver_id, p.rank + CASE WHEN p.id < message_id THEN 0 ELSE 1 END, message_id)
              AND r.store_id <= last_store
            ORDER BY r.store_id, r.receiver_id, r.rank, r.id LIMIT 1
        ) AS further
        WHERE p.id <> message_id
    )
    SELECT p.store_id, p.receiver_id, p.rank
    FROM (SELECT * FROM probe LIMIT 100000) AS p WHERE p.id = message_id;
END
$$;
