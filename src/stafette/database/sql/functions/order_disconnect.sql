-- An operator has a client's session ended by its broker; false when the client is offline.
CREATE OR REPLACE FUNCTION stafette.order_disconnect(client_name text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    known  integer := (SELECT c.id FROM stafette.find_client(client_name) AS c);
    online integer;
BEGIN
    IF known IS NULL THEN
        PERFORM stafette.raise_fault(105, format('there is no client %s', client_name));
    END IF;
    SELECT b.id INTO online
    FROM stafette.sessions AS s JOIN stafette.brokers AS b ON b.id = s.broker_id AND b.alive_until > now()
    WHERE s.client_id = known;
    PERFORM pg_notify('stafette_orders_' || online, 'disconnect ' || known) WHERE online IS NOT NULL;
    RETURN online IS NOT NULL;
END
$$;
