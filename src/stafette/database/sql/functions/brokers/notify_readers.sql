-- Runs when a transaction commits in which an application has sent: notifies the brokers that have reads waiting for the
-- queue. The commit takes PostgreSQL's one lock for notifications only when somebody waits; otherwise this is a look-up
-- in an empty table. An application has no right to these tables, hence SECURITY DEFINER.
CREATE OR REPLACE FUNCTION stafette.notify_readers() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM stafette.sql_sends AS s WHERE s.transaction = NEW.transaction AND s.queue = NEW.queue;
    PERFORM pg_notify('stafette_bell_' || p.broker_id, q.name)
    FROM stafette.queues AS q
    JOIN stafette.parked AS p ON p.queue_id IN (q.id, 0)
    JOIN stafette.brokers AS b ON b.id = p.broker_id AND b.alive_until > clock_timestamp()
    WHERE q.name = NEW.queue;
    RETURN NULL;
END
$$;
