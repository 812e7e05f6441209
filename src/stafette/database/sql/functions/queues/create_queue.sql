-- Creates a queue; with exist_ok, a queue with that name may already exist. The options are a JSON object with the keys
-- of the type stafette.queue_options. The request of a session that has created the queue may do so again.
CREATE OR REPLACE FUNCTION stafette.create_queue(
    client integer, queue text, options jsonb DEFAULT '{}', exist_ok boolean DEFAULT false,
    session bigint DEFAULT NULL, request bigint DEFAULT NULL
) RETURNS SETOF stafette.counted_queue
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stafette.lock_catalog();
    PERFORM stafette.may_change(client);
    PERFORM stafette.create_queue_unchecked(client, queue, options, exist_ok, session, request);
    RETURN QUERY SELECT * FROM stafette.find_queue(queue);
END
$$;
