-- The sessions that a broker holds: what a broker compares with its own list after its lease had run out.
CREATE OR REPLACE FUNCTION stafette.broker_sessions(broker integer) RETURNS TABLE (client integer, token bigint)
LANGUAGE sql STABLE AS $$
    SELECT s.client_id, s.token FROM stafette.sessions AS s WHERE s.broker_id = broker
$$;
