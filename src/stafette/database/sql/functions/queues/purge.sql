-- Deletes all ready and delayed messages of a queue; not leased or dead ones.
CREATE OR REPLACE FUNCTION stafette.purge(client integer, queue text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    target stafette.queues;
BEGIN
    PERFORM stafette.may_change(client);
    target := stafette.get_queue(queue);
    IF target.owner_id <> client THEN
        PERFORM stafette.raise_fault(107, format('queue %s is personal; only its owner may empty it', queue));
    END IF;
    RETURN stafette.purge_unchecked(queue);
END
$$;
