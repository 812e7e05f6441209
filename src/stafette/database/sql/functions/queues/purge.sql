-- Purges a queue for a client: removes all ready and delayed messages but those that others have sent to others. Leased
-- and dead ones stay.
--
-- If nothing is addressed to others, all is hidden at once, and upkeep deletes it later. Returns the store that has it now,
-- for count_discarded(): counting takes time, in which nobody else should have to wait. Otherwise returns NULL: the caller
-- goes on with purge_step().
CREATE OR REPLACE FUNCTION stafette.purge(client integer, queue text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    target stafette.queues := stafette.may_purge(client, queue);
BEGIN
    -- Before the lock too, for which all others would wait in vain.
    IF NOT stafette.has_private_messages(target.store_id, client) THEN
        PERFORM stafette.lock_catalog_alone();
        target := stafette.may_purge(client, queue);
        IF NOT stafette.has_private_messages(target.store_id, client) THEN
            RETURN stafette.purge_unchecked(queue);
        END IF;
    END IF;
    RETURN NULL;
END
$$;
