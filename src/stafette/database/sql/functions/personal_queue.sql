-- The personal queue of a client; no row when there is no such client.
CREATE OR REPLACE FUNCTION stafette.personal_queue(client_name text) RETURNS SETOF stafette.queue_list
LANGUAGE sql STABLE AS $$
    SELECT * FROM stafette.queue_list AS q WHERE q.name = '@' || client_name
$$;
