-- Deletes a broker that ends. Its clients are offline, and can continue their sessions at another.
CREATE OR REPLACE FUNCTION stafette.leave_broker(broker integer) RETURNS void
LANGUAGE sql AS $$
    UPDATE stafette.sessions SET broker_id = NULL, ended_at = now()
    WHERE client_id IN (
        SELECT s.client_id FROM stafette.sessions AS s WHERE s.broker_id = broker ORDER BY s.client_id FOR UPDATE
    );
    DELETE FROM stafette.brokers WHERE id = broker
$$;
