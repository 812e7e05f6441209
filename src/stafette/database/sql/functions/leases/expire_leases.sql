-- Maintenance: gives back up to `at_most` messages whose lease has run out. Returns the queues that got messages; for a
-- message that was delivered too often that is the dead-letter queue.
CREATE OR REPLACE FUNCTION stafette.expire_leases(at_most integer) RETURNS TABLE (queue text, messages bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    ids    bigint[];
    queues integer[];
BEGIN
    PERFORM stafette.lock_catalog();

    SELECT array_agg(l.id),
           array_agg(CASE WHEN l.deliveries >= q.max_deliveries THEN coalesce(q.dead_letter_id, q.id) ELSE q.id END)
    INTO ids, queues
    FROM (
        SELECT l.id, l.queue_id, l.deliveries FROM stafette.leased AS l
        WHERE l.leased_until <= now() ORDER BY l.leased_until LIMIT at_most FOR UPDATE SKIP LOCKED
    ) AS l
    JOIN stafette.queues AS q ON q.id = l.queue_id;

    PERFORM stafette.give_back(ids, NULL);
    RETURN QUERY
    SELECT q.name, count(*) FROM unnest(queues) AS u (id) JOIN stafette.queues AS q ON q.id = u.id GROUP BY q.name;
END
$$;
