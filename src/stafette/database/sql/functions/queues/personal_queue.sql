-- The personal queue of a client; no row if there is no such client.
CREATE OR REPLACE FUNCTION stafette.personal_queue(client_name text)
RETURNS SETOF stafette.counted_queue
LANGUAGE sql STABLE AS $$
    SELECT * FROM stafette.find_queue('@' || client_name)
$$;
