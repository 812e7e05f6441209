-- An operator removes all messages that wait in a queue, also in a personal one. Returns how many.
CREATE OR REPLACE FUNCTION stafette.purge_as_operator(actor text, origin text, queue text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    deleted bigint := stafette.purge_unchecked(queue);
BEGIN
    PERFORM stafette.record_action(actor, origin, 'purge', queue, format('%s messages', deleted));
    RETURN deleted;
END
$$;
