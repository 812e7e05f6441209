-- An operator sets or (NULL) removes the hash of a client's secret.
CREATE OR REPLACE FUNCTION stafette.set_secret(actor text, origin text, client_name text, client_secret text)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE stafette.clients SET secret = client_secret WHERE name = client_name AND registered_at IS NOT NULL;
    IF NOT FOUND THEN
        PERFORM stafette.raise_fault(105, format('there is no client %s', client_name));
    END IF;
    PERFORM stafette.record_action(
        actor, origin, CASE WHEN client_secret IS NULL THEN 'remove secret' ELSE 'set secret' END, client_name, '');
END
$$;
