-- The actions of operators, newest first, before the line `before_id`.
CREATE OR REPLACE FUNCTION stafette.audit_lines(before_id bigint, at_most integer) RETURNS SETOF stafette.audit
LANGUAGE sql STABLE AS $$
    SELECT * FROM stafette.audit AS a
    WHERE a.id < coalesce(before_id, 9223372036854775807) ORDER BY a.id DESC LIMIT at_most
$$;
