-- Registers a broker, with a lease of `seconds`; deletes brokers that ended so long ago that nobody can continue a
-- session of theirs.
CREATE OR REPLACE FUNCTION stafette.join_broker(broker_name text, seconds double precision) RETURNS integer
LANGUAGE sql AS $$
    DELETE FROM stafette.brokers WHERE alive_until < now() - stafette.session_lifetime();
    INSERT INTO stafette.brokers (name, alive_until) VALUES (broker_name, now() + seconds * interval '1 second')
    RETURNING id
$$;
