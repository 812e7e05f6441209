-- Deletes a queue, with all its messages, which upkeep deletes later. The caller holds the catalog's lock alone.
CREATE OR REPLACE FUNCTION stafette.discard_queue(target stafette.queues) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO stafette.discarded (state, owner, id)
    VALUES ('ready', 'queue', target.store_id), ('delayed', 'queue', target.store_id), ('dead', 'queue', target.id);
    DELETE FROM stafette.queues AS q WHERE q.id = target.id
$$;
