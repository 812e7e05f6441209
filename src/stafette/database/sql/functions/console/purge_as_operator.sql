-- An operator deletes all ready and delayed messages of a queue, also of a personal one. Returns their number.
CREATE OR REPLACE FUNCTION stafette.purge_as_operator(actor text, origin text, queue text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    deleted bigint := stafette.purge_unchecked(queue);
BEGIN
    PERFORM stafette.record_action(actor, origin, 'purge', queue, format('%s messages', deleted));
    RETURN deleted;
END
$$;
