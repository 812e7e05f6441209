-- The name of a queue that may be newer than the calling statement (see name_of_client).
CREATE OR REPLACE FUNCTION stafette.name_of_queue(queue integer) RETURNS text
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT q.name FROM stafette.queues AS q WHERE q.id = queue);
END
$$;
