-- An operator deletes a queue: an empty one, or with force any, with all its messages.
CREATE OR REPLACE FUNCTION stafette.delete_queue_as_operator(actor text, origin text, queue text, force boolean)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stafette.delete_queue_unchecked(queue, force);
    PERFORM stafette.record_action(
        actor, origin, 'delete queue', queue, CASE WHEN force THEN 'with its messages' ELSE '' END);
END
$$;
