-- An operator deletes a client that is offline, also one that has a secret.
CREATE OR REPLACE FUNCTION stafette.delete_client_as_operator(actor text, origin text, client_name text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stafette.delete_client(NULL, client_name);
    PERFORM stafette.record_action(actor, origin, 'delete client', client_name, '');
END
$$;
