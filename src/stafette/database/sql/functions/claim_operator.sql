-- Sets the hash of a role's secret if it has none yet; true when that was so. Of several at once, one succeeds.
CREATE OR REPLACE FUNCTION stafette.claim_operator(who text, hashed text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO stafette.operators (role, secret) VALUES (who, hashed) ON CONFLICT (role) DO NOTHING;
    RETURN FOUND;
END
$$;
