-- Opens or continues sessions of clients at a broker, each under a token of its own. A client whose session is live must
-- show its number; any other free name can be taken. `secrets` are the stored hashes that the secrets were compared
-- with: a session that is not continued needs the present one. If a batch has a client twice, the first gets the
-- session. A fault is a row without a token; a row with neither has lost a race and is to be tried again. `left_broker`
-- is the live broker at which the session was before, under `left_token`; it has to be told.
CREATE OR REPLACE FUNCTION stafette.take_sessions(
    clients integer[], secrets text[], shown bigint[], tokens bigint[], broker integer
) RETURNS TABLE (place integer, token bigint, fault integer, detail text, left_broker integer, left_token bigint)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    fenced  integer[] := stafette.fence_sessions(clients, shown);   -- before the lock of the catalogue, as reads do
    earlier stafette.sessions[];
BEGIN
    PERFORM stafette.lock_catalog();   -- so that no client is deleted before its session is stored
    earlier := ARRAY(
        SELECT s FROM stafette.sessions AS s WHERE s.client_id = ANY (clients) ORDER BY s.client_id FOR UPDATE
    );
    RETURN QUERY
    WITH claim AS MATERIALIZED (
        SELECT a.place, a.client, c.name, a.token, sha256(int8send(a.shown)) AS session, b.id AS live_at, e.token AS old_token,
               CASE
                   WHEN c.id IS NULL THEN 105
                   WHEN a.turn > 1 THEN 202
                   WHEN c.secret IS DISTINCT FROM a.secret AND NOT stafette.session_proves(e, a.shown) THEN 202
                   WHEN b.id IS NOT NULL AND (e.session = sha256(int8send(a.shown))) IS NOT TRUE THEN 106
                   WHEN e.client_id IS NOT NULL AND e.last_broker_id <> ALL (fenced) THEN 202
               END AS fault
        FROM (
            SELECT u.*, row_number() OVER (PARTITION BY u.client ORDER BY u.place) AS turn
            FROM unnest(clients, secrets, shown, tokens) WITH ORDINALITY AS u (client, secret, shown, token, place)
        ) AS a
        LEFT JOIN stafette.clients AS c ON c.id = a.client AND c.registered_at IS NOT NULL
        LEFT JOIN unnest(earlier) AS e ON e.client_id = a.client
        LEFT JOIN stafette.brokers AS b ON b.id = e.broker_id AND b.alive_until > clock_timestamp()
    ), taken AS (
        INSERT INTO stafette.sessions AS s (client_id, broker_id, last_broker_id, token, session)
        SELECT a.client, broker, broker, a.token, a.session FROM claim AS a WHERE a.fault IS NULL ORDER BY a.client
        ON CONFLICT (client_id) DO UPDATE
            SET broker_id = broker, last_broker_id = broker, token = excluded.token, session = excluded.session,
                since = now(), ended_at = NULL, proves_secret = true
            WHERE s.token IN (SELECT e.token FROM unnest(earlier) AS e)   -- another broker may have been faster
        RETURNING s.client_id
    ), seen AS (
        UPDATE stafette.clients AS c SET last_seen_at = now() FROM taken AS t WHERE c.id = t.client_id
    )
    SELECT a.place::integer,
           CASE WHEN t.client_id IS NOT NULL THEN a.token END,
           a.fault,
           CASE
               WHEN a.fault = 105 THEN 'the client has been deleted; say hello again to register it anew'
               WHEN a.fault = 106 THEN format('client %s has a live session; end that one first', a.name)
               WHEN a.fault = 202 THEN 'the session is being changed elsewhere; try again'
           END,
           CASE WHEN a.live_at <> broker THEN a.live_at END,
           CASE WHEN a.live_at <> broker THEN a.old_token END
    FROM claim AS a LEFT JOIN taken AS t ON t.client_id = a.client AND a.fault IS NULL
    ORDER BY a.place;
END
$$;
