-- The queue of this name, or a fault.
CREATE OR REPLACE FUNCTION stafette.the_queue(queue text) RETURNS stafette.queues
LANGUAGE plpgsql STABLE AS $$
DECLARE
    found_queue stafette.queues;
BEGIN
    SELECT * INTO found_queue FROM stafette.queues AS q WHERE q.name = queue;
    IF found_queue.id IS NULL THEN
        PERFORM stafette.raise_fault(102, format('there is no queue %s; create it first', queue));
    END IF;
    RETURN found_queue;
END
$$;
