-- An operator hides all ready and delayed messages of a queue, whoever they are for. Returns their store, as purge().
-- The audit has the number when they are counted (record_purged).
CREATE OR REPLACE FUNCTION stafette.purge_as_operator(actor text, origin text, queue text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    store integer := stafette.purge_unchecked(queue);
BEGIN
    PERFORM stafette.record_action(actor, origin, 'purge', queue, format('not counted (store %s)', store));
    RETURN store;
END
$$;
