-- An operator sets or (NULL) removes the hash of a client's secret. A session that was opened with the old one goes on,
-- but its number no longer stands for the secret.
CREATE OR REPLACE FUNCTION stafette.set_secret(actor text, origin text, client_name text, client_secret text)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stafette.clients SET secret = client_secret WHERE name = client_name AND registered_at IS NOT NULL;
    IF NOT FOUND THEN
        PERFORM stafette.raise_fault(105, format('there is no client %s', client_name));
    END IF;
    UPDATE stafette.sessions AS s SET proves_secret = false
    FROM stafette.clients AS c WHERE c.name = client_name AND s.client_id = c.id;
    PERFORM stafette.record_action(
        actor, origin, CASE WHEN client_secret IS NULL THEN 'remove secret' ELSE 'set secret' END, client_name, '');
END
$$;
