-- How long a session can be continued after its connection or its broker has gone: longer than a restart takes, or a
-- failure at night that somebody has to look at; and short enough that nobody wonders what old numbers are still good for.
CREATE OR REPLACE FUNCTION stafette.session_lifetime() RETURNS interval
LANGUAGE sql IMMUTABLE AS $$
    SELECT interval '1 hour'
$$;
