-- purge() without the check of permissions; purge_as_operator() calls it too.
CREATE OR REPLACE FUNCTION stafette.purge_unchecked(queue text) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    target          stafette.queues := stafette.get_queue(queue);
    ready_deleted   bigint;
    delayed_deleted bigint;
BEGIN
    DELETE FROM stafette.ready AS m WHERE m.queue_id = target.id;
    GET DIAGNOSTICS ready_deleted = ROW_COUNT;
    DELETE FROM stafette.delayed AS m WHERE m.queue_id = target.id;
    GET DIAGNOSTICS delayed_deleted = ROW_COUNT;
    RETURN ready_deleted + delayed_deleted;
END
$$;
