-- Maintenance: moves up to `at_most` delayed messages that are due to ready, where their order is that of arrival.
-- Returns the queues that got messages. What was purged, or whose queue or receiver was deleted, is only moved out of
-- the way, and counted under NULL: to delete it is the business of delete_discarded().
CREATE OR REPLACE FUNCTION stafette.promote_delayed(at_most integer) RETURNS TABLE (queue text, messages bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
DECLARE
    ids       bigint[];
    discarded bigint[];
BEGIN
    PERFORM stafette.lock_catalog();

    SELECT array_agg(d.id) FILTER (WHERE d.counts), array_agg(d.id) FILTER (WHERE NOT d.counts)
    INTO ids, discarded
    FROM (
        SELECT d.id, (SELECT q.id FROM stafette.queues AS q WHERE q.store_id = d.store_id) IS NOT NULL
                     AND d.receiver_id NOT IN (SELECT stafette.discarded_receivers('delayed')) AS counts
        FROM stafette.delayed AS d
        WHERE d.due_at <= now() ORDER BY d.due_at LIMIT at_most FOR UPDATE SKIP LOCKED
    ) AS d;

    UPDATE stafette.delayed AS d SET due_at = '9000-01-01 00:00+00' WHERE d.id = ANY (discarded);
    RETURN QUERY
    WITH deleted AS (
        DELETE FROM stafette.delayed AS d WHERE d.id = ANY (ids) RETURNING d.*
    ), promoted AS (
        INSERT INTO stafette.ready AS r
            (id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body)
        SELECT id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body
        FROM deleted
        RETURNING r.store_id
    )
    SELECT q.name, count(*) FROM promoted AS p JOIN stafette.queues AS q ON q.store_id = p.store_id GROUP BY q.name
    UNION ALL
    SELECT NULL, cardinality(discarded) WHERE cardinality(discarded) > 0;
END
$$;
