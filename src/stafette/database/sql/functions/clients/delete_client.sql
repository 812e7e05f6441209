-- Deletes a client that is offline, with its personal queue and all messages addressed to it, which nobody can reach any
-- more and upkeep deletes later. Messages that it sent stay, and so does its name, as their sender. Only the client itself
-- or an operator (NULL) can delete a client that has a secret.
CREATE OR REPLACE FUNCTION stafette.delete_client(by_client integer, client_name text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    target stafette.client_list;
BEGIN
    PERFORM stafette.lock_catalog_alone();
    SELECT * INTO target FROM stafette.find_client(client_name);
    IF target.id IS NULL THEN
        PERFORM stafette.raise_fault(105, format('there is no client %s', client_name));
    ELSIF by_client <> target.id AND EXISTS (
        SELECT FROM stafette.clients AS c WHERE c.id = target.id AND c.secret IS NOT NULL
    ) THEN
        PERFORM stafette.raise_fault(107, format('client %s has a secret; only it can delete itself', client_name));
    ELSIF target.broker IS NOT NULL THEN
        PERFORM stafette.raise_fault(106, format('client %s is online; let it disconnect first', client_name));
    END IF;
    PERFORM stafette.discard_queue(q) FROM stafette.queues AS q WHERE q.owner_id = target.id;
    INSERT INTO stafette.discarded (state, owner, id)
    SELECT t.state, 'receiver', target.id FROM unnest(ARRAY['ready', 'delayed', 'dead']) AS t (state);
    DELETE FROM stafette.sessions AS s WHERE s.client_id = target.id;
    UPDATE stafette.clients AS c
    SET mode = 'full', secret = NULL, registered_at = NULL, last_seen_at = NULL, deleted_at = clock_timestamp()
    WHERE c.id = target.id;
END
$$;
