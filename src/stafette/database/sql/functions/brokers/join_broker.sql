-- Registers a broker, with a lease of `seconds`; deletes brokers that ended long ago, with their sessions.
CREATE OR REPLACE FUNCTION stafette.join_broker(broker_name text, seconds double precision) RETURNS integer
LANGUAGE sql AS $$
    DELETE FROM stafette.brokers WHERE alive_until < now() - interval '1 hour';
    INSERT INTO stafette.brokers (name, alive_until) VALUES (broker_name, now() + seconds * interval '1 second')
    RETURNING id
$$;
