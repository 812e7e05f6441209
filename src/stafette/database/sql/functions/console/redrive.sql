-- An operator makes the dead messages of a queue ready again, with no deliveries, and without a time to live: theirs
-- may have ended while they were dead. Returns their number.
CREATE OR REPLACE FUNCTION stafette.redrive(actor text, origin text, queue text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    target stafette.queues;
    moved  bigint;
BEGIN
    PERFORM stafette.lock_catalog();
    target := stafette.get_queue(queue);
    WITH deleted AS (
        DELETE FROM stafette.dead AS d
        WHERE d.queue_id = target.id AND d.receiver_id NOT IN (SELECT stafette.discarded_receivers('dead'))
        RETURNING d.*
    )
    INSERT INTO stafette.ready
        (id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body)
    SELECT id, target.store_id, receiver_id, sender_id, rank, 0, context, arrived_at, NULL, headers, body FROM deleted;
    GET DIAGNOSTICS moved = ROW_COUNT;
    PERFORM stafette.record_action(actor, origin, 'redrive', queue, format('%s messages', moved));
    RETURN moved;
END
$$;
