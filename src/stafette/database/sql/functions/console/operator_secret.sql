-- The hash of a role's secret; NULL if it has none.
CREATE OR REPLACE FUNCTION stafette.operator_secret(who text) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT o.secret FROM stafette.operators AS o WHERE o.role = who
$$;
