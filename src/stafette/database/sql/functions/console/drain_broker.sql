-- An operator tells a broker to drain and end.
CREATE OR REPLACE FUNCTION stafette.drain_broker(actor text, origin text, broker integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    broker_name text := (SELECT b.name FROM stafette.brokers AS b WHERE b.id = broker AND b.alive_until > now());
BEGIN
    IF broker_name IS NULL THEN
        PERFORM stafette.raise_fault(
            100, format('there is no broker %s that is alive; look at the list again', broker));
    END IF;
    PERFORM stafette.command_broker(broker, 'drain');
    PERFORM stafette.record_action(actor, origin, 'drain', broker_name, format('broker %s', broker));
END
$$;
