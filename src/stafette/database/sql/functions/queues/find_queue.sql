-- One queue by its name or by its id (the other is NULL), with the number of its ready messages; no row if there is
-- none.
CREATE OR REPLACE FUNCTION stafette.find_queue(queue_name text, queue_id integer DEFAULT NULL)
RETURNS SETOF stafette.counted_queue
LANGUAGE sql STABLE AS $$
    SELECT q, stafette.count_ready(q.id)
    FROM stafette.queue_list AS q WHERE q.name = queue_name OR q.id = find_queue.queue_id
$$;
