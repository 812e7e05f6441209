-- The number of ready messages of each queue that has any. One pass over the index: its cost grows with their number.
CREATE OR REPLACE FUNCTION stafette.queue_lengths()
RETURNS TABLE (queue text, messages bigint)
LANGUAGE sql STABLE AS $$
    SELECT q.name, r.messages
    FROM (SELECT m.store_id, count(*) AS messages FROM stafette.ready AS m
          WHERE m.receiver_id NOT IN (SELECT stafette.discarded_receivers('ready')) GROUP BY m.store_id) AS r
    JOIN stafette.queues AS q ON q.store_id = r.store_id
$$;
