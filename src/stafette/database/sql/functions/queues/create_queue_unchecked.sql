-- create_queue() without the check of permissions; an operator's queue has no creator (NULL).
CREATE OR REPLACE FUNCTION stafette.create_queue_unchecked(
    creator integer, queue text, options jsonb, exist_ok boolean, session bigint DEFAULT NULL,
    request bigint DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    requested         stafette.queue_options := stafette.read_queue_options(options);
    dead_letter_queue stafette.queues;
BEGIN
    PERFORM stafette.lock_catalog();
    IF queue !~ '^[^[:cntrl:]]{1,200}$' THEN
        PERFORM stafette.raise_fault(100, 'a queue''s name has 1 to 200 characters, none of them a control character');
    ELSIF queue LIKE '@%' THEN
        PERFORM stafette.raise_fault(100, format('queue %s: names with @ are for personal queues', queue));
    ELSIF requested.max_body NOT BETWEEN 0 AND 67108864 THEN
        PERFORM stafette.raise_fault(
            100, format('max_body %s is not between 0 and 67108864 bytes', requested.max_body));
    ELSIF requested.max_deliveries NOT BETWEEN 1 AND 32767 THEN
        PERFORM stafette.raise_fault(
            100, format('max_deliveries %s is not between 1 and 32767', requested.max_deliveries));
    END IF;
    IF requested.dead_letter IS NOT NULL THEN
        dead_letter_queue := stafette.get_queue(requested.dead_letter);
    END IF;
    INSERT INTO stafette.queues
        (name, creator_id, exclude_own, max_body, max_deliveries, dead_letter_id, created_session, created_request)
    VALUES (queue, creator, coalesce(requested.exclude_own, false), coalesce(requested.max_body, 1048576),
            coalesce(requested.max_deliveries, 5), dead_letter_queue.id, session, request)
    ON CONFLICT (name) DO NOTHING;
    IF NOT FOUND AND NOT exist_ok AND NOT EXISTS (
        SELECT FROM stafette.queues AS q WHERE q.name = create_queue_unchecked.queue
            AND q.created_session = session AND q.created_request = request
    ) THEN
        PERFORM stafette.raise_fault(103, format('queue %s already exists', queue));
    END IF;
END
$$;
