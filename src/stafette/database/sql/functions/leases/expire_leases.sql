-- Maintenance: gives back up to `at_most` messages whose lease has run out. Returns the queues that got messages; for a
-- message that was delivered too often that is the dead-letter queue. Messages whose queue or receiver was deleted are
-- deleted here, and counted under NULL.
CREATE OR REPLACE FUNCTION stafette.expire_leases(at_most integer) RETURNS TABLE (queue text, messages bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    ids       bigint[];
    queues    integer[];
    discarded bigint[];
BEGIN
    PERFORM stafette.lock_catalog();

    SELECT array_agg(l.id) FILTER (WHERE l.is_held),
           array_agg(CASE WHEN l.deliveries >= q.max_deliveries THEN coalesce(q.dead_letter_id, q.id) ELSE q.id END)
               FILTER (WHERE l.is_held),
           array_agg(l.id) FILTER (WHERE NOT l.is_held)
    INTO ids, queues, discarded
    FROM (
        SELECT l.id, l.queue_id, l.deliveries, stafette.is_held(l.queue_id, l.receiver_id) AS is_held
        FROM stafette.leased AS l
        WHERE l.leased_until <= now() ORDER BY l.leased_until LIMIT at_most FOR UPDATE SKIP LOCKED
    ) AS l
    LEFT JOIN stafette.queues AS q ON q.id = l.queue_id;

    PERFORM stafette.give_back(ids, NULL);
    DELETE FROM stafette.leased AS l WHERE l.id = ANY (discarded);
    RETURN QUERY
    SELECT q.name, count(*) FROM unnest(queues) AS u (id) JOIN stafette.queues AS q ON q.id = u.id GROUP BY q.name
    UNION ALL
    SELECT NULL, cardinality(discarded) WHERE cardinality(discarded) > 0;
END
$$;
