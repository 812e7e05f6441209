-- Locks the leases that these clients still hold under these tokens and returns them with their places. A lease is its
-- holder's, in whichever session, and nobody else's, whoever learns the token. Locks are taken in the order of ids, so
-- that two batches cannot deadlock. OFFSET 0 keeps the conditions on token and end out of the subquery, so that the
-- planner always looks a lease up by its id alone. A queue or a receiver that was deleted (is_held) is looked up by
-- scalar subqueries, which stay single look-ups by id too.
CREATE OR REPLACE FUNCTION stafette.lock_leases(clients integer[], ids bigint[], tokens bigint[])
RETURNS TABLE (id bigint, place integer)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT l.id, a.place::integer
    FROM (
        SELECT * FROM unnest(clients, ids, tokens) WITH ORDINALITY AS u (client, id, token, place) ORDER BY u.id, u.place
    ) AS a
    CROSS JOIN LATERAL (
        SELECT l.id, l.token, l.holder_id, l.leased_until, l.queue_id, l.receiver_id
        FROM stafette.leased AS l WHERE l.id = a.id OFFSET 0 FOR UPDATE
    ) AS l
    WHERE l.token = a.token AND l.holder_id = a.client AND l.leased_until > now()
      AND (SELECT q.id FROM stafette.queues AS q WHERE q.id = l.queue_id) IS NOT NULL
      AND (l.receiver_id = 0
           OR (SELECT c.id FROM stafette.clients AS c WHERE c.id = l.receiver_id AND c.deleted_at IS NULL) IS NOT NULL);
END
$$;
