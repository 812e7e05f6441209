-- One queue by its name or by its id (the other is NULL); no row when there is none.
CREATE OR REPLACE FUNCTION stafette.find_queue(queue_name text, queue_id integer DEFAULT NULL)
RETURNS SETOF stafette.queue_list
LANGUAGE sql STABLE AS $$
    SELECT * FROM stafette.queue_list AS q WHERE q.name = queue_name OR q.id = find_queue.queue_id
$$;
