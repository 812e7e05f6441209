-- Keeps the sessions of a broker where they are until the end of the transaction; NULL: there is no broker. Whoever hands
-- out messages calls this first, before the lock of the catalogue, and then checks the tokens of the sessions. It is the
-- other side of fence_sessions().
CREATE OR REPLACE FUNCTION stafette.hold_sessions(broker integer) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock_shared(5746663, broker)
$$;
