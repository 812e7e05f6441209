-- The number of messages that a purge has hidden, from the store that it returned. Exact, because upkeep leaves a store
-- alone for a while (delete_discarded) and nobody else can reach it.
CREATE OR REPLACE FUNCTION stafette.count_discarded(store integer) RETURNS bigint
LANGUAGE sql STABLE
SET enable_seqscan = off
AS $$
    SELECT (SELECT count(*) FROM stafette.ready AS m WHERE m.store_id = store
            AND m.receiver_id NOT IN (SELECT stafette.discarded_receivers('ready')))
         + (SELECT count(*) FROM stafette.delayed AS m WHERE m.store_id = store
            AND m.receiver_id NOT IN (SELECT stafette.discarded_receivers('delayed')))
$$;
