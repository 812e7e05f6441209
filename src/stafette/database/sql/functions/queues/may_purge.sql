-- The queue, if this client may purge it; raises a fault if not.
CREATE OR REPLACE FUNCTION stafette.may_purge(client integer, queue text) RETURNS stafette.queues
LANGUAGE plpgsql STABLE AS $$
DECLARE
    target stafette.queues;
BEGIN
    PERFORM stafette.may_change(client);
    target := stafette.get_queue(queue);
    IF target.owner_id <> client THEN
        PERFORM stafette.raise_fault(107, format('queue %s is personal; only its owner may empty it', queue));
    END IF;
    RETURN target;
END
$$;
