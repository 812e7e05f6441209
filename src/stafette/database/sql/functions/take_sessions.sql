-- Puts clients online through a broker, each unless it has a live session already: then its token is NULL. Of several
-- that want the same name in one batch, the first gets it.
CREATE OR REPLACE FUNCTION stafette.take_sessions(clients integer[], broker integer)
RETURNS TABLE (place integer, token bigint)
LANGUAGE sql AS $$
    WITH first AS MATERIALIZED (
        SELECT DISTINCT ON (a.client) a.client, a.place
        FROM unnest(clients) WITH ORDINALITY AS a (client, place) ORDER BY a.client, a.place
    ), taken AS (
        INSERT INTO stafette.sessions AS s (client_id, broker_id)
        SELECT f.client, broker FROM first AS f ORDER BY f.client
        ON CONFLICT (client_id) DO UPDATE
            SET broker_id = excluded.broker_id, token = DEFAULT, since = now()
            WHERE NOT EXISTS (SELECT FROM stafette.brokers AS b
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
