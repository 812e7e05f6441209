-- An operator creates a queue, which has no creator.
CREATE OR REPLACE FUNCTION stafette.create_queue_as_operator(actor text, origin text, queue text, options jsonb)
RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stafette.create_queue_unchecked(NULL, queue, options, false);
    PERFORM stafette.record_action(actor, origin, 'create queue', queue, '');
END
$$;
