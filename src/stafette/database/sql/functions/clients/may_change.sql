-- Raises a fault unless this client is registered and not read-only.
CREATE OR REPLACE FUNCTION stafette.may_change(client integer) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    caller stafette.clients;
BEGIN
    SELECT * INTO caller FROM stafette.clients AS c WHERE c.id = client AND c.registered_at IS NOT NULL;
    IF caller.id IS NULL THEN
        PERFORM stafette.raise_fault(105, 'the client is not registered (any more); connect again');
    ELSIF caller.mode <> 'full' THEN
        PERFORM stafette.raise_fault(107, format('client %s is read-only and cannot change anything', caller.name));
    END IF;
END
$$;
