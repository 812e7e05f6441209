-- An operator tells a broker to drain and end. It is told at commit, if it listens.
CREATE OR REPLACE FUNCTION stafette.order_drain(broker integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM stafette.brokers AS b WHERE b.id = broker AND b.alive_until > now()) THEN
        PERFORM stafette.raise_fault(100, format('there is no broker %s that is alive; look at the list again', broker));
    END IF;
    PERFORM pg_notify('stafette_orders_' || broker, 'drain');
END
$$;
