-- Opens sessions of clients at a broker. The token is NULL for a client that already has a live session or has been
-- deleted meanwhile. If a batch has a client twice, the first gets the session. A client that shows the number of its
-- live session continues it, under a new token.
CREATE OR REPLACE FUNCTION stafette.take_sessions(clients integer[], tokens bigint[], broker integer, sessions bigint[])
RETURNS TABLE (place integer, token bigint)
LANGUAGE sql AS $$
    SELECT stafette.lock_catalog();   -- so that no client is deleted before its session is stored
    WITH first AS MATERIALIZED (
        SELECT DISTINCT ON (a.client) a.client, a.token, a.session, a.place
        FROM unnest(clients, tokens, sessions) WITH ORDINALITY AS a (client, token, session, place)
        JOIN stafette.clients AS c ON c.id = a.client AND c.registered_at IS NOT NULL
        ORDER BY a.client, a.place
    ), taken AS (
        INSERT INTO stafette.sessions AS s (client_id, broker_id, token, session)
        SELECT f.client, broker, f.token, f.session FROM first AS f ORDER BY f.client
        ON CONFLICT (client_id) DO UPDATE
            SET broker_id = excluded.broker_id, token = excluded.token, session = excluded.session, since = now()
            WHERE s.session = excluded.session OR NOT EXISTS (SELECT FROM stafette.brokers AS b
                              WHERE b.id = s.broker_id AND b.alive_until > clock_timestamp())
        RETURNING s.client_id, s.token
    ), seen AS (
        UPDATE stafette.clients AS c SET last_seen_at = now() FROM taken AS t WHERE c.id = t.client_id
    )
    SELECT a.place::integer, t.token
    FROM unnest(clients) WITH ORDINALITY AS a (client, place)
    LEFT JOIN first AS f ON f.client = a.client AND f.place = a.place
    LEFT JOIN taken AS t ON t.client_id = f.client
    ORDER BY a.place
$$;
