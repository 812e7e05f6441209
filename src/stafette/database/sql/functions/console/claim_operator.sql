-- Sets the hash of a role's secret if it has none yet; true if it was set. Of concurrent calls, one succeeds.
CREATE OR REPLACE FUNCTION stafette.claim_operator(actor text, origin text, who text, hashed text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stafette.operators (role, secret) VALUES (who, hashed) ON CONFLICT (role) DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM stafette.record_action(actor, origin, 'set operator secret', who, '');
    RETURN true;
END
$$;
