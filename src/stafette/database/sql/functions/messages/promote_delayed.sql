-- Maintenance: moves up to `at_most` delayed messages that are due to ready, where their order is that of arrival.
-- Returns the queues that got messages.
CREATE OR REPLACE FUNCTION stafette.promote_delayed(at_most integer) RETURNS TABLE (queue text, messages bigint)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
BEGIN
    PERFORM stafette.lock_catalog();

    RETURN QUERY
    WITH due AS MATERIALIZED (
        SELECT d.id FROM stafette.delayed AS d
        WHERE d.due_at <= now() ORDER BY d.due_at LIMIT at_most FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM stafette.delayed AS d USING due WHERE d.id = due.id RETURNING d.*
    ), promoted AS (
        INSERT INTO stafette.ready AS r
            (id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body)
        SELECT id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body
        FROM deleted
        RETURNING r.queue_id
    )
    SELECT q.name, count(*) FROM promoted AS p JOIN stafette.queues AS q ON q.id = p.queue_id GROUP BY q.name;
END
$$;
