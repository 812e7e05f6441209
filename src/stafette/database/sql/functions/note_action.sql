-- Notes what an operator did, and forgets what is 100,000 notes ago.
CREATE OR REPLACE FUNCTION stafette.note_action(who text, address text, action text, subject text, detail text)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    noted bigint;
BEGIN
    INSERT INTO stafette.audit AS a (role, address, action, subject, detail)
    VALUES (who, address, action, subject, detail) RETURNING a.id INTO noted;
    DELETE FROM stafette.audit AS a WHERE a.id <= noted - 100000;
END
$$;
