-- An operator logs in, with a session of `seconds`; expired sessions are deleted.
CREATE OR REPLACE FUNCTION stafette.open_operator_session(
    actor text, origin text, seconds double precision, token bytea
) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM stafette.operator_sessions WHERE ends_at <= now();
    INSERT INTO stafette.operator_sessions (token_hash, role, ends_at)
    VALUES (token, actor, now() + seconds * interval '1 second');
    SELECT stafette.record_action(actor, origin, 'log in', 'console', '')
$$;
