-- The table that stands for the sessions of a broker.
CREATE OR REPLACE FUNCTION stafette.session_lock(broker integer) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT 'stafette.session_lock_' || broker % 16
$$;
