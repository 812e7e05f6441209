-- Takes clients offline, each only if its session still has this token.
CREATE OR REPLACE FUNCTION stafette.release_sessions(clients integer[], tokens bigint[]) RETURNS void
LANGUAGE sql AS $$
    WITH deleted AS (
        DELETE FROM stafette.sessions AS s USING unnest(clients, tokens) AS a (client, token)
        WHERE s.client_id = a.client AND s.token = a.token
        RETURNING s.client_id
    )
    UPDATE stafette.clients AS c SET last_seen_at = now() FROM deleted WHERE c.id = deleted.client_id
$$;
