-- Takes clients offline, each if the session with this token is still the one that counts.
CREATE OR REPLACE FUNCTION stafette.release_sessions(clients integer[], tokens bigint[]) RETURNS void
LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM stafette.sessions AS s USING unnest(clients, tokens) AS a (client, token)
        WHERE s.client_id = a.client AND s.token = a.token
        RETURNING s.client_id
    )
    UPDATE stafette.clients AS c SET last_seen_at = now() FROM gone WHERE c.id = gone.client_id
$$;
