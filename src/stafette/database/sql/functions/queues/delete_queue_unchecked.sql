-- delete_queue() without the check of permissions; delete_queue_as_operator() calls it too.
CREATE OR REPLACE FUNCTION stafette.delete_queue_unchecked(queue text, force boolean) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    target stafette.queues := stafette.get_queue(queue);
BEGIN
    IF target.owner_id IS NOT NULL THEN
        PERFORM stafette.raise_fault(107, format('%s is a personal queue; delete its client instead', queue));
    END IF;
    -- Before the lock too, for which all others would wait if the answer is no.
    IF force OR stafette.is_empty(target) THEN
        PERFORM stafette.lock_catalog_alone();
        target := stafette.get_queue(queue);
        IF force OR stafette.is_empty(target) THEN
            PERFORM stafette.discard_queue(target);
            RETURN;
        END IF;
    END IF;
    PERFORM stafette.raise_fault(104, format('queue %s still holds messages; empty it, or delete with force', queue));
END
$$;
