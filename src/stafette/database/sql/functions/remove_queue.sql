-- What delete_queue() does once it is settled that one may; operators come here at once.
CREATE OR REPLACE FUNCTION stafette.remove_queue(queue text, force boolean) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    gone stafette.queues;
BEGIN
    PERFORM stafette.hold_structure(alone => true);
    gone := stafette.the_queue(queue);
    IF gone.owner_id IS NOT NULL THEN
        PERFORM stafette.raise_fault(107, format('%s is a personal queue; it goes when its client is deleted', queue));
    END IF;
    IF NOT force AND (
        EXISTS (SELECT FROM stafette.ready AS m WHERE m.queue_id = gone.id)
        OR EXISTS (SELECT FROM stafette.delayed AS m WHERE m.queue_id = gone.id)
        OR EXISTS (SELECT FROM stafette.leased AS m WHERE m.queue_id = gone.id)
        OR EXISTS (SELECT FROM stafette.dead AS m WHERE m.queue_id = gone.id)
    ) THEN
        PERFORM stafette.raise_fault(104, format('queue %s still holds messages; empty it, or delete with force', queue));
    END IF;
    DELETE FROM stafette.ready AS m WHERE m.queue_id = gone.id;
    DELETE FROM stafette.delayed AS m WHERE m.queue_id = gone.id;
    DELETE FROM stafette.leased AS m WHERE m.queue_id = gone.id;
    DELETE FROM stafette.dead AS m WHERE m.queue_id = gone.id;
    DELETE FROM stafette.queues AS q WHERE q.id = gone.id;
END
$$;
