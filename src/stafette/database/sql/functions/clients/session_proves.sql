-- Whether a number that a client shows is that of this session, and stands for the client's secret: the session is live
-- or was recently, and since then nobody has changed the secret or disconnected the client.
CREATE OR REPLACE FUNCTION stafette.session_proves(s stafette.sessions, shown bigint) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        s.session = sha256(int8send(shown)) AND s.proves_secret
            AND coalesce(s.ended_at, (SELECT b.alive_until FROM stafette.brokers AS b WHERE b.id = s.broker_id))
                > now() - stafette.session_lifetime(),
        false)
$$;
