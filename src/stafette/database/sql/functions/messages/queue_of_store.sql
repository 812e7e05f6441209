-- The queue with this store, which may be newer than the calling statement (see name_of_client).
CREATE OR REPLACE FUNCTION stafette.queue_of_store(store integer) RETURNS stafette.queues
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    target stafette.queues;
BEGIN
    SELECT * INTO target FROM stafette.queues AS q WHERE q.store_id = store;
    RETURN target;
END
$$;
