-- The registered client with this name, if any.
CREATE OR REPLACE FUNCTION stafette.find_client(client_name text) RETURNS SETOF stafette.client_list
LANGUAGE sql STABLE AS $$
    SELECT * FROM stafette.client_list AS c WHERE c.name = client_name
$$;
