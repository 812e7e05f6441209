-- How many messages wait in each queue that holds any. One pass over the index: its cost grows with what is stored.
CREATE OR REPLACE FUNCTION stafette.queue_lengths()
RETURNS TABLE (queue text, messages bigint)
LANGUAGE sql STABLE AS $$
    SELECT q.name, r.messages
    FROM (SELECT ready.queue_id, count(*) AS messages FROM stafette.ready GROUP BY ready.queue_id) AS r
    JOIN stafette.queues AS q ON q.id = r.queue_id
$$;
