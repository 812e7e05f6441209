-- The queues ('': any queue) for which other live brokers have waiting reads.
CREATE OR REPLACE FUNCTION stafette.interests_elsewhere(asking_broker integer)
RETURNS TABLE (queue text, broker integer)
LANGUAGE sql STABLE AS $$
    SELECT coalesce(q.name, ''), p.broker_id
    FROM stafette.parked AS p
    JOIN stafette.brokers AS b ON b.id = p.broker_id AND b.alive_until > now()
    LEFT JOIN stafette.queues AS q ON q.id = p.queue_id
    WHERE p.broker_id <> asking_broker AND (q.id IS NOT NULL OR p.queue_id = 0)
$$;
