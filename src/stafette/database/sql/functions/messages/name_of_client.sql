-- The name of a client who may have come a moment ago. The functions that take messages see what is committed while
-- they run, but the statement around them only what was when it began: a sender that is newer has no name there.
CREATE OR REPLACE FUNCTION stafette.name_of_client(client integer) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT c.name FROM stafette.clients AS c WHERE c.id = client);
END
$$;
