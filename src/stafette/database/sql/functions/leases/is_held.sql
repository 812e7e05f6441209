-- Whether a leased message still counts: its queue, and the client to whom it is addressed, have not been deleted.
CREATE OR REPLACE FUNCTION stafette.is_held(queue_id integer, receiver_id integer) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM stafette.queues AS q WHERE q.id = is_held.queue_id)
       AND (is_held.receiver_id = 0 OR EXISTS (SELECT FROM stafette.clients AS c
                                               WHERE c.id = is_held.receiver_id AND c.deleted_at IS NULL));
END
$$;
