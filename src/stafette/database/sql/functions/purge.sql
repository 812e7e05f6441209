-- Removes all messages of a queue that wait, ready or delayed; not those in somebody's hands, nor the dead.
CREATE OR REPLACE FUNCTION stafette.purge(client integer, queue text) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    target stafette.queues;
    ready_gone bigint;
    delayed_gone bigint;
BEGIN
    PERFORM stafette.may_change(client);
    target := stafette.the_queue(queue);
    IF target.owner_id <> client THEN
        PERFORM stafette.raise_fault(107, format('queue %s is personal; only its owner may empty it', queue));
    END IF;
    DELETE FROM stafette.ready AS m WHERE m.queue_id = target.id;
    GET DIAGNOSTICS ready_gone = ROW_COUNT;
    DELETE FROM stafette.delayed AS m WHERE m.queue_id = target.id;
    GET DIAGNOSTICS delayed_gone = ROW_COUNT;
    RETURN ready_gone + delayed_gone;
END
$$;
