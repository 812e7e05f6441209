-- Queues in the order of their names, after `after_name`, each with the number of its ready messages.
CREATE OR REPLACE FUNCTION stafette.list_queues(after_name text DEFAULT '', at_most integer DEFAULT NULL)
RETURNS SETOF stafette.counted_queue
LANGUAGE sql STABLE AS $$
    SELECT q, stafette.count_ready(q.id)
    FROM stafette.queue_list AS q WHERE q.name > after_name ORDER BY q.name LIMIT at_most
$$;
