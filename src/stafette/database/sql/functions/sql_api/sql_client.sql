-- The id of the client as which an application uses the SQL API. A client that has a secret cannot be used from SQL.
CREATE OR REPLACE FUNCTION stafette.sql_client(client_name text) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    client stafette.clients;
BEGIN
    SELECT * INTO client FROM stafette.clients AS c WHERE c.name = client_name AND c.registered_at IS NOT NULL;
    IF client.id IS NULL THEN
        PERFORM stafette.raise_fault(105, format('there is no client %s; let it register first', client_name));
    ELSIF client.secret IS NOT NULL THEN
        PERFORM stafette.raise_fault(
            108, format('client %s has a secret; use it through a broker', client_name));
    END IF;
    RETURN client.id;
END
$$;
