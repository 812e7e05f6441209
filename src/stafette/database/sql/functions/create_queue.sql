-- Makes a queue; with exist_ok, a queue of that name that is there already is as good.
CREATE OR REPLACE FUNCTION stafette.create_queue(
    client integer, queue text, exclude_own boolean DEFAULT false, exist_ok boolean DEFAULT false,
    max_body integer DEFAULT NULL, max_deliveries integer DEFAULT NULL, dead_letter text DEFAULT NULL
) RETURNS SETOF stafette.queue_list
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stafette.hold_structure();
    PERFORM stafette.may_change(client);
    PERFORM stafette.make_queue(client, queue, exclude_own, exist_ok, max_body, max_deliveries, dead_letter);
    RETURN QUERY SELECT * FROM stafette.find_queue(queue);
END
$$;
