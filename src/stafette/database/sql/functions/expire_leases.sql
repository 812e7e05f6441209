-- Upkeep: gives back up to so many messages whose lease has run out. Returns the queues that got something.
CREATE OR REPLACE FUNCTION stafette.expire_leases(at_most integer) RETURNS TABLE (queue text, messages bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    ids    bigint[];
    queues integer[];
BEGIN
    PERFORM stafette.hold_structure();

    SELECT array_agg(l.id), array_agg(l.queue_id) INTO ids, queues
    FROM (
        SELECT l.id, l.queue_id FROM stafette.leased AS l
        WHERE l.leased_until <= now() ORDER BY l.leased_until LIMIT at_most FOR UPDATE SKIP LOCKED
    ) AS l;

    PERFORM stafette.give_back(ids, NULL);
    RETURN QUERY
    SELECT q.name, count(*) FROM unnest(queues) AS u (id) JOIN stafette.queues AS q ON q.id = u.id GROUP BY q.name;
END
$$;
