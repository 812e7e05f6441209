-- delete_queue() without the check of permissions; delete_queue_as_operator() calls it too.
CREATE OR REPLACE FUNCTION stafette.delete_queue_unchecked(queue text, force boolean) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    target stafette.queues;
BEGIN
    PERFORM stafette.lock_catalog(exclusive => true);
    target := stafette.get_queue(queue);
    IF target.owner_id IS NOT NULL THEN
        PERFORM stafette.raise_fault(107, format('%s is a personal queue; delete its client instead', queue));
    END IF;
    IF NOT force AND (
        EXISTS (SELECT FROM stafette.ready AS m WHERE m.queue_id = target.id)
        OR EXISTS (SELECT FROM stafette.delayed AS m WHERE m.queue_id = target.id)
        OR EXISTS (SELECT FROM stafette.leased AS m WHERE m.queue_id = target.id)
        OR EXISTS (SELECT FROM stafette.dead AS m WHERE m.queue_id = target.id)
    ) THEN
        PERFORM stafette.raise_fault(104, format('queue %s still holds messages; empty it, or delete with force', queue));
    END IF;
    DELETE FROM stafette.ready AS m WHERE m.queue_id = target.id;
    DELETE FROM stafette.delayed AS m WHERE m.queue_id = target.id;
    DELETE FROM stafette.leased AS m WHERE m.queue_id = target.id;
    DELETE FROM stafette.dead AS m WHERE m.queue_id = target.id;
    DELETE FROM stafette.queues AS q WHERE q.id = target.id;
END
$$;
