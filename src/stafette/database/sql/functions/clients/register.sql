-- Registers one client, or returns the one with this name (see register_batch).
CREATE OR REPLACE FUNCTION stafette.register(client_name text, client_mode text, client_secret text)
RETURNS TABLE (id integer, name text, mode text, secret text)
LANGUAGE plpgsql AS $$
DECLARE
    client record;
BEGIN
    SELECT * INTO client FROM stafette.register_batch(
        ARRAY[client_name], ARRAY[client_mode], ARRAY[client_secret], ARRAY[true], ARRAY[NULL::bigint]);
    IF client.fault IS NOT NULL THEN
        PERFORM stafette.raise_fault(client.fault, client.detail);
    END IF;
    RETURN QUERY SELECT client.id, client.name, client.mode, client.secret;
END
$$;
