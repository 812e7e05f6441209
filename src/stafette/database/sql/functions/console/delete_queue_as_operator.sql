-- An operator deletes an empty queue; with force also one that has messages.
CREATE OR REPLACE FUNCTION stafette.delete_queue_as_operator(actor text, origin text, queue text, force boolean)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stafette.delete_queue_unchecked(queue, force);
    PERFORM stafette.record_action(
        actor, origin, 'delete queue', queue, CASE WHEN force THEN 'with its messages' ELSE '' END);
END
$$;
