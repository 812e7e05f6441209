-- Renews a broker's lease, on which its sessions depend, for `seconds` from now. True if the lease was still valid;
-- false if it had run out, so that other brokers may have taken its clients' names; NULL if the broker is not
-- registered any more and must join again.
CREATE OR REPLACE FUNCTION stafette.renew_broker(broker integer, seconds double precision) RETURNS boolean
LANGUAGE sql AS $$
    WITH before AS MATERIALIZED (
        SELECT id, alive_until > now() AS held FROM stafette.brokers WHERE id = broker FOR UPDATE
    )
    UPDATE stafette.brokers AS b SET alive_until = now() + seconds * interval '1 second'
    FROM before WHERE b.id = before.id
    RETURNING before.held
$$;
