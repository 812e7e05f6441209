-- The sessions of a broker. It compares them with its own list after its lease has run out.
CREATE OR REPLACE FUNCTION stafette.broker_sessions(broker integer) RETURNS TABLE (client integer, token bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.client_id, s.token FROM stafette.sessions AS s WHERE s.broker_id = broker
$$;
