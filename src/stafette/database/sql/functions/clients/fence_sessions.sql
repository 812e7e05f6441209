-- Holds off the sessions of a broker from moving elsewhere until the end of the transaction; NULL: there is no broker.
-- Whoever removes messages for sessions calls this first and checks their tokens after; whoever moves sessions away from
-- a broker takes the lock exclusively. So what was removed for a session is committed before it can move, and nothing
-- is removed for it by its old broker after.
CREATE OR REPLACE FUNCTION stafette.fence_sessions(broker integer) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock_shared(5746663, broker)
$$;
