-- Remembers for so many seconds who has logged in; those whose time is over are forgotten.
CREATE OR REPLACE FUNCTION stafette.open_operator_session(token bytea, who text, seconds double precision) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM stafette.operator_sessions WHERE ends_at <= now();
    INSERT INTO stafette.operator_sessions (token_hash, role, ends_at)
    VALUES (token, who, now() + seconds * interval '1 second')
$$;
