-- Deletes a client that is offline, with its personal queue and all that waits for it. What it sent stays; so does its
-- bare name, as the sender of that. A client that has a secret can be deleted by itself or by an operator (NULL) only.
CREATE OR REPLACE FUNCTION stafette.delete_client(by_client integer, client_name text) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    known    stafette.client_list;
    personal integer;
BEGIN
    PERFORM stafette.hold_structure(alone => true);
    SELECT * INTO known FROM stafette.find_client(client_name);
    IF known.id IS NULL THEN
        PERFORM stafette.raise_fault(105, format('there is no client %s', client_name));
    ELSIF by_client <> known.id AND EXISTS (
        SELECT FROM stafette.clients AS c WHERE c.id = known.id AND c.secret IS NOT NULL
    ) THEN
        PERFORM stafette.raise_fault(107, format('client %s has a secret; only it can delete itself', client_name));
    ELSIF known.broker IS NOT NULL THEN
        PERFORM stafette.raise_fault(106, format('client %s is online; let it disconnect first', client_name));
    END IF;
    SELECT q.id INTO personal FROM stafette.queues AS q WHERE q.owner_id = known.id;
    DELETE FROM stafette.ready WHERE receiver_id = known.id AND receiver_id <> 0;
    DELETE FROM stafette.delayed WHERE receiver_id = known.id;
    DELETE FROM stafette.leased WHERE receiver_id = known.id;
    DELETE FROM stafette.dead WHERE receiver_id = known.id;
    DELETE FROM stafette.sessions WHERE client_id = known.id;
    DELETE FROM stafette.keys WHERE sender_id = known.id;
    DELETE FROM stafette.queues WHERE id = personal;
    UPDATE stafette.clients SET mode = 'full', secret = NULL, registered_at = NULL, last_seen_at = NULL
    WHERE id = known.id;
END
$$;
