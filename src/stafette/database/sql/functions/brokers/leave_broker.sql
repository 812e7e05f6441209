-- Deletes a broker that ends, with its sessions.
CREATE OR REPLACE FUNCTION stafette.leave_broker(broker integer) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM stafette.brokers WHERE id = broker
$$;
