-- Upkeep: deletes sessions that nobody can continue any more, up to a number; returns how many.
CREATE OR REPLACE FUNCTION stafette.forget_sessions(at_most integer) RETURNS integer
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    forgotten integer;
BEGIN
    DELETE FROM stafette.sessions WHERE client_id IN (
        SELECT s.client_id FROM stafette.sessions AS s
        WHERE s.ended_at < now() - stafette.session_lifetime()
        ORDER BY s.ended_at LIMIT at_most FOR UPDATE SKIP LOCKED
    );
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END
$$;
