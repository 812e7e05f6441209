-- Like receive_batch(), but the messages stay in leased until they are acknowledged or given back, or the lease runs
-- out. The token is for fencing: after a redelivery the old one is not valid. It is random, so that nobody guesses it:
-- the caller draws a number for each ask, from which each of its messages gets another.
CREATE OR REPLACE FUNCTION stafette.lease_batch(
    clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[],
    max_bytes bigint[], budget bigint, seconds double precision[], lease_tokens bigint[], broker integer DEFAULT NULL,
    tokens bigint[] DEFAULT NULL, sessions bigint[] DEFAULT NULL, request_ids bigint[] DEFAULT NULL
) RETURNS SETOF stafette.answer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    asks stafette.ask[];
BEGIN
    PERFORM stafette.hold_sessions(broker), stafette.lock_catalog();
    asks := stafette.resolve_asks(clients, queues, senders, contexts, by_arrival, wanted, max_bytes, budget, true, tokens);

    RETURN QUERY
    WITH removed AS MATERIALIZED (
        SELECT t.*, coalesce(q.id, (stafette.queue_of_store(t.store_id)).id) AS queue_id,
               coalesce(q.name, (stafette.queue_of_store(t.store_id)).name) AS queue
        FROM stafette.take_batch(asks, budget) AS t
        LEFT JOIN LATERAL (SELECT q.id, q.name FROM stafette.queues AS q
                           WHERE q.store_id = t.store_id LIMIT 1) AS q ON true
    ), lease AS (
        INSERT INTO stafette.leased AS l
            (id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body,
             token, holder_id, leased_until, session, request)
        SELECT t.id, t.queue_id, t.receiver_id, t.sender_id, t.rank, t.deliveries + 1, t.context, t.arrived_at,
               t.expires_at,
               CASE WHEN stafette.is_readable(t.headers, t.arrived_at) THEN t.headers
               ELSE stafette.refuse_unreadable(t.id, t.queue) END,
               t.body, lease_tokens[t.place] # t.id, clients[t.place],
               now() + seconds[t.place] * interval '1 second', sessions[t.place], request_ids[t.place]
        FROM removed AS t WHERE t.fault IS NULL
        RETURNING l.id, l.token, l.deliveries
    )
    SELECT t.place, t.fault, t.detail, t.id, t.queue,
           coalesce((SELECT c.name FROM stafette.clients AS c WHERE c.id = t.sender_id),
                    stafette.name_of_client(t.sender_id)),
           CASE WHEN t.receiver_id <> 0 THEN (SELECT c.name FROM stafette.clients AS c WHERE c.id = t.receiver_id) END,
           t.context, 10 - t.rank, t.arrived_at,
           k.deliveries::integer, t.headers, t.body, k.token
    FROM removed AS t
    LEFT JOIN lease AS k ON k.id = t.id
    ORDER BY t.place, CASE WHEN by_arrival[t.place] THEN 0 ELSE t.rank END, t.id;
END
$$;
