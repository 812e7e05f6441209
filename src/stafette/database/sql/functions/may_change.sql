-- Raises unless this client is registered and may change things.
CREATE OR REPLACE FUNCTION stafette.may_change(client integer) RETURNS void
LANGUAGE plpgsql STABLE AS $$
DECLARE
    found_client stafette.clients;
BEGIN
    SELECT * INTO found_client FROM stafette.clients AS c WHERE c.id = client AND c.registered_at IS NOT NULL;
    IF found_client.id IS NULL THEN
        PERFORM stafette.raise_fault(105, 'the client is not registered (any more); connect again');
    ELSIF found_client.mode <> 'full' THEN
        PERFORM stafette.raise_fault(107, format('client %s is read-only; it may only look', found_client.name));
    END IF;
END
$$;
