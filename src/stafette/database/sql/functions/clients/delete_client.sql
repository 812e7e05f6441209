-- Deletes a client that is offline, with its personal queue and all messages addressed to it. Messages that it sent
-- stay, and so does its name, as their sender. Only the client itself or an operator (NULL) can delete a client that
-- has a secret.
CREATE OR REPLACE FUNCTION stafette.delete_client(by_client integer, client_name text) RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    target   stafette.client_list;
    personal integer;
BEGIN
    PERFORM stafette.lock_catalog(exclusive => true);
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
    SELECT q.id INTO personal FROM stafette.queues AS q WHERE q.owner_id = target.id;
    DELETE FROM stafette.ready WHERE receiver_id = target.id AND receiver_id <> 0;
    DELETE FROM stafette.delayed WHERE receiver_id = target.id;
    DELETE FROM stafette.leased WHERE receiver_id = target.id;
    DELETE FROM stafette.dead WHERE receiver_id = target.id;
    DELETE FROM stafette.sessions WHERE client_id = target.id;
    DELETE FROM stafette.keys WHERE sender_id = target.id;
    DELETE FROM stafette.queues WHERE id = personal;
    UPDATE stafette.clients SET mode = 'full', secret = NULL, registered_at = NULL, last_seen_at = NULL
    WHERE id = target.id;
END
$$;
