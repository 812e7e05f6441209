-- Tells brokers, each on its own channel, that sessions of theirs go on elsewhere: they hang up. Never called in the
-- transaction that takes a session over: the commit of a NOTIFY takes a global lock.
CREATE OR REPLACE FUNCTION stafette.notify_moved_sessions(brokers integer[], clients integer[], tokens bigint[])
RETURNS void
LANGUAGE sql AS $$
    SELECT pg_notify('stafette_moved_' || m.broker, m.client || ' ' || m.token)
    FROM unnest(brokers, clients, tokens) AS m (broker, client, token)
$$;
