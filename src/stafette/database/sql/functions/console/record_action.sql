-- Writes down what an operator did, from where and to what, and forgets what is 100,000 lines ago. Functions that
-- operators call take actor and origin as their first arguments and call this themselves, so that nothing is changed
-- without a line, nor a line written for what was not changed.
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
