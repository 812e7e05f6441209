-- Puts the dead messages of a queue back to ready, as if never delivered. Returns how many.
CREATE OR REPLACE FUNCTION stafette.redrive(queue text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    target stafette.queues;
    moved  bigint;
BEGIN
    PERFORM stafette.hold_structure();
    target := stafette.the_queue(queue);
    WITH gone AS (
        DELETE FROM stafette.dead AS d WHERE d.queue_id = target.id RETURNING d.*
    )
    INSERT INTO stafette.ready
        (id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body)
    SELECT id, queue_id, receiver_id, sender_id, rank, 0, context, arrived_at, expires_at, headers, body FROM gone;
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END
$$;
