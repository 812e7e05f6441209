-- Deletes an operator's session.
CREATE OR REPLACE FUNCTION stafette.close_operator_session(token bytea) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM stafette.operator_sessions WHERE token_hash = token
$$;
