-- How long a key of a send counts: 24 hours, unless the setting stafette.key_hours says otherwise. Brokers with such a
-- setting of their own bring it along with their connections; ALTER DATABASE … SET stafette.key_hours is for all,
-- applications that use the SQL API included.
CREATE OR REPLACE FUNCTION stafette.key_lifetime() RETURNS interval
LANGUAGE plpgsql STABLE AS $$
DECLARE
    hours text := coalesce(nullif(current_setting('stafette.key_hours', true), ''), '24');
BEGIN
    IF hours !~ '^\d{1,5}(\.\d{1,6})?$' OR hours::double precision = 0 THEN
        PERFORM stafette.raise_fault(
            300, format('the database setting stafette.key_hours is %s; set it to a number of hours up to 99999', hours));
    END IF;
    RETURN hours::double precision * interval '1 hour';
END
$$;
