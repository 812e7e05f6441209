-- Whether a name is ours: nobody can register it by saying hello. The console registers it with claim_console().
CREATE OR REPLACE FUNCTION stafette.is_reserved(client_name text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT client_name = 'console'
$$;
