-- Stores a role's secret in another form, unless it has changed meanwhile. It is the same secret: nobody logs in again.
CREATE OR REPLACE FUNCTION stafette.renew_operator_secret(who text, former text, hashed text) RETURNS void
LANGUAGE sql AS $$
    UPDATE stafette.operators AS o SET secret = hashed WHERE o.role = who AND o.secret = former
$$;
