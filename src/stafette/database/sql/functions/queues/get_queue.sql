-- The queue with this name; raises a fault if there is none.
CREATE OR REPLACE FUNCTION stafette.get_queue(queue text) RETURNS stafette.queues
LANGUAGE plpgsql STABLE AS $$
DECLARE
    target stafette.queues;
BEGIN
    SELECT * INTO target FROM stafette.queues AS q WHERE q.name = queue;
    IF target.id IS NULL THEN
        PERFORM stafette.raise_fault(102, format('there is no queue %s; create it first', queue));
    END IF;
    RETURN target;
END
$$;
