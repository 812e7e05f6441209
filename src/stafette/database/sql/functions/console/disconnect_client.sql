-- An operator ends a client's session, through its broker; false if the client is offline. The client may come back,
-- but has to prove its secret.
CREATE OR REPLACE FUNCTION stafette.disconnect_client(actor text, origin text, client_name text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    target_id integer := (SELECT c.id FROM stafette.find_client(client_name) AS c);
    session   stafette.sessions;
BEGIN
    IF target_id IS NULL THEN
        PERFORM stafette.raise_fault(105, format('there is no client %s', client_name));
    END IF;
    UPDATE stafette.sessions SET proves_secret = false WHERE client_id = target_id;
    SELECT s.* INTO session
    FROM stafette.sessions AS s JOIN stafette.brokers AS b ON b.id = s.broker_id AND b.alive_until > now()
    WHERE s.client_id = target_id;
    IF session.broker_id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM stafette.command_broker(session.broker_id, 'disconnect', target_id, session.token);
    PERFORM stafette.record_action(actor, origin, 'disconnect', client_name, '');
    RETURN true;
END
$$;
