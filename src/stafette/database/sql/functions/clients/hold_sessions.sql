-- Keeps the sessions of a broker where they are until the end of the transaction; NULL: there is no broker. Whoever hands
-- out messages calls this first, before the lock of the catalogue, and then checks the tokens of the sessions. It is the
-- other side of fence_sessions().
CREATE OR REPLACE FUNCTION stafette.hold_sessions(broker integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF broker IS NOT NULL THEN
        EXECUTE 'LOCK TABLE ' || stafette.session_lock(broker) || ' IN ROW SHARE MODE';
    END IF;
END
$$;
