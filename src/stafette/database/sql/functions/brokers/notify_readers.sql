-- Notifies the brokers that have reads waiting for these queues of a send in an application's own transaction, whose
-- commit delivers the notification. It takes PostgreSQL's one lock for that only when somebody waits; otherwise this is
-- a look-up in an empty table.
CREATE OR REPLACE FUNCTION stafette.notify_readers(queues text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('stafette_bell_' || p.broker_id, q.name)
    FROM stafette.queues AS q
    JOIN stafette.parked AS p ON p.queue_id IN (q.id, 0)
    JOIN stafette.brokers AS b ON b.id = p.broker_id AND b.alive_until > clock_timestamp()
    WHERE q.name = ANY (queues);
END
$$;
