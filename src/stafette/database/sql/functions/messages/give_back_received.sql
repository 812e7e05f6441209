-- Puts what these requests have received back into its lanes, as nobody saw the answers. Returns the queues that have
-- messages again. What was received from a queue, or by a receiver, that has been deleted meanwhile is gone with it.
CREATE OR REPLACE FUNCTION stafette.give_back_received(clients integer[], sessions bigint[], request_ids bigint[])
RETURNS SETOF text
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    PERFORM stafette.lock_catalog();

    RETURN QUERY
    WITH returned AS MATERIALIZED (
        DELETE FROM stafette.received AS r WHERE r.ctid = ANY (ARRAY(
            SELECT k.tid
            FROM unnest(clients, sessions, request_ids) AS a (client, session, request)
            CROSS JOIN LATERAL (
                SELECT r.ctid AS tid, r.client_id FROM stafette.received AS r
                WHERE r.session = a.session AND r.request = a.request OFFSET 0
            ) AS k
            WHERE k.client_id = a.client
        ))
        RETURNING r.*
    ), now_ready AS (
        INSERT INTO stafette.ready AS m
            (id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body)
        SELECT r.id, q.store_id, r.receiver_id, r.sender_id, r.rank, r.deliveries, r.context, r.arrived_at,
               r.expires_at, r.headers, r.body
        FROM returned AS r JOIN stafette.queues AS q ON q.id = r.queue_id
        WHERE stafette.is_held(r.queue_id, r.receiver_id)
        RETURNING m.store_id
    )
    SELECT q.name FROM stafette.queues AS q WHERE q.store_id IN (SELECT n.store_id FROM now_ready AS n);
END
$$;
