-- The number of ready messages of each queue that has any. One pass over the index: its cost grows with their number.
CREATE OR REPLACE FUNCTION stafette.queue_lengths()
RETURNS TABLE (queue text, messages bigint)
LANGUAGE sql STABLE AS $$
    SELECT q.name, r.messages
    FROM (SELECT ready.queue_id, count(*) AS messages FROM stafette.ready GROUP BY ready.queue_id) AS r
    JOIN stafette.queues AS q ON q.id = r.queue_id
$$;
