-- Takes clients offline, each only if its session still has this token. Who shows its number can continue the session
-- for a while, unless it has ended for good.
CREATE OR REPLACE FUNCTION stafette.release_sessions(clients integer[], tokens bigint[], for_good boolean)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    released integer[] := ARRAY(
        SELECT s.client_id
        FROM unnest(clients, tokens) AS a (client, token)
        JOIN stafette.sessions AS s ON s.client_id = a.client AND s.token = a.token AND s.broker_id IS NOT NULL
        ORDER BY s.client_id FOR UPDATE OF s          -- in the order of take_sessions
    );
BEGIN
    DELETE FROM stafette.sessions AS s WHERE s.client_id = ANY (released) AND (for_good OR s.session IS NULL);
    UPDATE stafette.sessions AS s SET broker_id = NULL, ended_at = now() WHERE s.client_id = ANY (released);
    UPDATE stafette.clients AS c SET last_seen_at = now() WHERE c.id = ANY (released);
END
$$;
