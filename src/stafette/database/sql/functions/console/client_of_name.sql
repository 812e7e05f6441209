-- The client with this name, or the last one that had it before it was deleted: as a sender it is still there.
CREATE OR REPLACE FUNCTION stafette.client_of_name(client_name text) RETURNS integer
LANGUAGE sql STABLE AS $$
    SELECT c.id FROM stafette.clients AS c WHERE c.name = client_name ORDER BY c.name DESC, c.deleted_at DESC LIMIT 1
$$;
