-- Hides all ready and delayed messages of a queue at once; upkeep deletes them later. Leased and dead ones stay. Returns
-- the store that has them now, for count_discarded(): counting takes time, in which nobody else should have to wait.
CREATE OR REPLACE FUNCTION stafette.purge(client integer, queue text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    target stafette.queues;
BEGIN
    PERFORM stafette.may_change(client);
    target := stafette.get_queue(queue);
    IF target.owner_id <> client THEN
        PERFORM stafette.raise_fault(107, format('queue %s is personal; only its owner may empty it', queue));
    END IF;
    RETURN stafette.purge_unchecked(queue);
END
$$;
