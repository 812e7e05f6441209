-- What purge() does once it is settled that one may; operators come here at once.
CREATE OR REPLACE FUNCTION stafette.empty_queue(queue text) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    target stafette.queues := stafette.the_queue(queue);
    ready_gone bigint;
    delayed_gone bigint;
BEGIN
    DELETE FROM stafette.ready AS m WHERE m.queue_id = target.id;
    GET DIAGNOSTICS ready_gone = ROW_COUNT;
    DELETE FROM stafette.delayed AS m WHERE m.queue_id = target.id;
    GET DIAGNOSTICS delayed_gone = ROW_COUNT;
    RETURN ready_gone + delayed_gone;
END
$$;
