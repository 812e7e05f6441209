-- Writes an operator's action, its origin and its subject to the audit, and keeps the last 100,000 lines. Functions for
-- operators take actor and origin as their first arguments and call this themselves, so that each change has a line,
-- and each line a change.
CREATE OR REPLACE FUNCTION stafette.record_action(actor text, origin text, action text, subject text, detail text)
RETURNS void
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    line_id bigint;
BEGIN
    INSERT INTO stafette.audit AS a (role, address, action, subject, detail)
    VALUES (actor, origin, action, subject, detail) RETURNING a.id INTO line_id;
    DELETE FROM stafette.audit AS a WHERE a.id <= line_id - 100000;
END
$$;
