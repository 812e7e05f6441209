-- Notifies brokers, each on its own channel, that a queue has a new message. Never called in the transaction of a send:
-- the commit of a NOTIFY takes a global lock.
CREATE OR REPLACE FUNCTION stafette.notify_brokers(brokers integer[], queues text[]) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_notify('stafette_bell_' || r.broker, r.queue) FROM unnest(brokers, queues) AS r (broker, queue)
$$;
