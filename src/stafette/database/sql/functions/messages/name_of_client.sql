-- The name of a client that may be newer than the calling statement. The functions that take messages see rows that are
-- committed while they run, but the statement around them sees only its own snapshot, which lacks a newer sender.
CREATE OR REPLACE FUNCTION stafette.name_of_client(client integer) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT c.name FROM stafette.clients AS c WHERE c.id = client);
END
$$;
