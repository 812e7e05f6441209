-- Whether a client can be sent a message with these values. The constraints of the tables say the same, so it is false
-- only where somebody has dropped them.
CREATE OR REPLACE FUNCTION stafette.is_readable(headers jsonb, arrived_at timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (headers IS NULL OR NOT headers @? 'strict $.* ? (@.type() != "string")')
       AND arrived_at BETWEEN '1970-01-01 00:00+00' AND '9000-01-01 00:00+00'
$$;
