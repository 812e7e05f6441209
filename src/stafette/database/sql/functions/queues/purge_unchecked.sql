-- Hides all ready and delayed messages of a queue at once, for purge() and purge_as_operator(). The lock is held alone, so no send or read
-- of this queue is in flight: what is in the store at this moment is all that ever will be.
CREATE OR REPLACE FUNCTION stafette.purge_unchecked(queue text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    target stafette.queues;
BEGIN
    PERFORM stafette.lock_catalog_alone();
    target := stafette.get_queue(queue);
    UPDATE stafette.queues AS q SET store_id = DEFAULT WHERE q.id = target.id;
    INSERT INTO stafette.discarded (state, owner, id)
    VALUES ('ready', 'queue', target.store_id), ('delayed', 'queue', target.store_id);
    RETURN target.store_id;
END
$$;
