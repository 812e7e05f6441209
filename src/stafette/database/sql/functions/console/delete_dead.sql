-- An operator deletes the dead messages of a queue. Returns their number.
CREATE OR REPLACE FUNCTION stafette.delete_dead(actor text, origin text, queue text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    target  stafette.queues := stafette.get_queue(queue);
    deleted bigint;
BEGIN
    DELETE FROM stafette.dead AS d
    WHERE d.queue_id = target.id AND d.receiver_id NOT IN (SELECT stafette.discarded_receivers('dead'));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    PERFORM stafette.record_action(actor, origin, 'delete dead messages', queue, format('%s messages', deleted));
    RETURN deleted;
END
$$;
