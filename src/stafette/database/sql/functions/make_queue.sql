-- What create_queue() does once it is settled that one may; an operator's queue has no creator (NULL).
CREATE OR REPLACE FUNCTION stafette.make_queue(
    creator integer, queue text, exclude_own boolean, exist_ok boolean, max_body integer, max_deliveries integer,
    dead_letter text
) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    dead_letter_queue stafette.queues;
BEGIN
    PERFORM stafette.hold_structure();
    IF queue !~ '^[^[:cntrl:]]{1,200}$' THEN
        PERFORM stafette.raise_fault(100, 'a queue''s name has 1 to 200 characters, none of them a control character');
    ELSIF queue LIKE '@%' THEN
        PERFORM stafette.raise_fault(100, format('queue %s: names with @ are for personal queues', queue));
    ELSIF max_body NOT BETWEEN 0 AND 67108864 THEN
        PERFORM stafette.raise_fault(100, format('max_body %s is not between 0 and 67108864 bytes', max_body));
    ELSIF max_deliveries NOT BETWEEN 1 AND 32767 THEN
        PERFORM stafette.raise_fault(100, format('max_deliveries %s is not between 1 and 32767', max_deliveries));
    END IF;
    IF dead_letter IS NOT NULL THEN
        dead_letter_queue := stafette.the_queue(dead_letter);
    END IF;
    INSERT INTO stafette.queues AS q (name, creator_id, exclude_own, max_body, max_deliveries, dead_letter_id)
    VALUES (queue, creator, make_queue.exclude_own, coalesce(make_queue.max_body, 1048576),
            coalesce(make_queue.max_deliveries, 5), dead_letter_queue.id)
    ON CONFLICT (name) DO NOTHING;
    IF NOT FOUND AND NOT exist_ok THEN
        PERFORM stafette.raise_fault(103, format('there is a queue %s already', queue));
    END IF;
END
$$;
