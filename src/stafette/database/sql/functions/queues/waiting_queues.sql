-- The queues that hold messages addressed to this client, each with their number, most first.
CREATE OR REPLACE FUNCTION stafette.waiting_queues(client integer, at_most integer DEFAULT NULL)
RETURNS SETOF stafette.counted_queue
LANGUAGE sql STABLE
SET enable_seqscan = off
AS $$
    SELECT q, w.messages
    FROM (
        SELECT r.store_id, count(*) AS messages FROM stafette.ready AS r
        WHERE r.receiver_id = client AND r.receiver_id <> 0
          AND r.receiver_id NOT IN (SELECT stafette.discarded_receivers('ready'))
          AND (r.expires_at IS NULL OR r.expires_at > now())
        GROUP BY r.store_id
    ) AS w
    JOIN stafette.queues AS s ON s.store_id = w.store_id
    JOIN stafette.queue_list AS q ON q.id = s.id
    ORDER BY w.messages DESC, q.name LIMIT at_most
$$;
