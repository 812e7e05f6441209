-- Sets or (NULL) removes the hash of a role's secret. Operators with that role must log in again.
CREATE OR REPLACE FUNCTION stafette.set_operator_secret(actor text, origin text, who text, hashed text) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM stafette.operator_sessions WHERE role = who;
    DELETE FROM stafette.operators WHERE role = who AND hashed IS NULL;
    INSERT INTO stafette.operators (role, secret) SELECT who, hashed WHERE hashed IS NOT NULL
    ON CONFLICT (role) DO UPDATE SET secret = excluded.secret, changed_at = now();
    SELECT stafette.record_action(
        actor, origin, CASE WHEN hashed IS NULL THEN 'remove operator secret' ELSE 'set operator secret' END, who, '')
$$;
