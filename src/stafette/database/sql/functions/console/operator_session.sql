-- The role of an operator's session; NULL if it has expired or does not exist.
CREATE OR REPLACE FUNCTION stafette.operator_session(token bytea) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT s.role FROM stafette.operator_sessions AS s WHERE s.token_hash = token AND s.ends_at > now()
$$;
