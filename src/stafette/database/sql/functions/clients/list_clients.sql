-- Registered clients in the order of their names, after `after_name`, each with the broker through which it is online.
CREATE OR REPLACE FUNCTION stafette.list_clients(after_name text DEFAULT '', at_most integer DEFAULT NULL)
RETURNS SETOF stafette.client_list
LANGUAGE sql STABLE AS $$
    SELECT * FROM stafette.client_list AS c WHERE c.name > after_name ORDER BY c.name LIMIT at_most
$$;
