-- Removes the dead messages of a queue for good. Returns how many.
CREATE OR REPLACE FUNCTION stafette.bury(queue text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    target stafette.queues := stafette.the_queue(queue);
    gone   bigint;
BEGIN
    DELETE FROM stafette.dead AS d WHERE d.queue_id = target.id;
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END
$$;
