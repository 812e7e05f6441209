-- Whether a store holds messages that are addressed to others than this client: four probes of an index. A message that
-- the client has sent to another counts, and one that has expired, or whose receiver was deleted.
CREATE OR REPLACE FUNCTION stafette.has_private_messages(store integer, client integer) RETURNS boolean
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
SET enable_incremental_sort = off
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM (
            (SELECT FROM stafette.ready AS r
             WHERE (r.store_id, r.receiver_id, r.rank, r.id) > (store, 0, 10, 0) AND (r.store_id, r.receiver_id) < (store, client)
             ORDER BY r.store_id, r.receiver_id, r.rank, r.id LIMIT 1)
            UNION ALL
            (SELECT FROM stafette.ready AS r
             WHERE (r.store_id, r.receiver_id, r.rank, r.id) > (store, client, 10, 0) AND r.store_id <= store
             ORDER BY r.store_id, r.receiver_id, r.rank, r.id LIMIT 1)
            UNION ALL
            (SELECT FROM stafette.delayed AS d
             WHERE (d.store_id, d.receiver_id) > (store, 0) AND (d.store_id, d.receiver_id) < (store, client)
               AND d.receiver_id <> 0
             ORDER BY d.store_id, d.receiver_id, d.id LIMIT 1)
            UNION ALL
            (SELECT FROM stafette.delayed AS d
             WHERE (d.store_id, d.receiver_id) > (store, client) AND d.store_id <= store AND d.receiver_id <> 0
             ORDER BY d.store_id, d.receiver_id, d.id LIMIT 1)
        ) AS m);
END
$$;
