-- A broker now has waiting reads for exactly these queues ('' stands for any queue). The other brokers are notified if
-- one of the queues is new.
CREATE OR REPLACE FUNCTION stafette.announce_interests(broker integer, queues text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    ids   integer[] := ARRAY(
        SELECT q.id FROM stafette.queues AS q WHERE q.name = ANY (queues)
        UNION ALL SELECT 0 WHERE '' = ANY (queues)
    );
    added integer;
BEGIN
    DELETE FROM stafette.parked AS p WHERE p.broker_id = broker AND p.queue_id <> ALL (ids);
    INSERT INTO stafette.parked (queue_id, broker_id)
    SELECT w.id, b.id FROM unnest(ids) AS w (id) JOIN stafette.brokers AS b ON b.id = broker
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS added = ROW_COUNT;
    IF added > 0 THEN
        PERFORM pg_notify('stafette_parked', broker::text);
    END IF;
END
$$;
