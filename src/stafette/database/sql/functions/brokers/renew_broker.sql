-- A broker, and with it each of its sessions, stays alive for so many seconds from now. True when the lease had held
-- without a gap; false when it had run out, so that others may have taken its clients' names; NULL when the broker has
-- been forgotten and must join again.
CREATE OR REPLACE FUNCTION stafette.renew_broker(broker integer, seconds double precision) RETURNS boolean
LANGUAGE sql AS $$
    WITH before AS MATERIALIZED (
        SELECT id, alive_until > now() AS held FROM stafette.brokers WHERE id = broker FOR UPDATE
    )
    UPDATE stafette.brokers AS b SET alive_until = now() + seconds * interval '1 second'
    FROM before WHERE b.id = before.id
    RETURNING before.held
$$;
