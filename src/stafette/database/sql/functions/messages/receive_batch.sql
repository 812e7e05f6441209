-- Removes and returns messages for many asks (reads), of some `budget` bytes in all (see take_batch). A fault is a row of
-- its own. The messages of an ask come in reading order; an ask without messages has no row.
--
-- A broker adds to each ask the token and the number of its session, and the id of the request: the messages are then
-- kept in the table received until the session has seen the answer. The asks of earlier answers that were seen come in
-- the last two arrays. In an application's own transaction there is no answer that could be lost.
CREATE OR REPLACE FUNCTION stafette.receive_batch(
    clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[],
    max_bytes bigint[], budget bigint, broker integer DEFAULT NULL, tokens bigint[] DEFAULT NULL,
    sessions bigint[] DEFAULT NULL, request_ids bigint[] DEFAULT NULL, seen_sessions bigint[] DEFAULT NULL,
    seen_requests bigint[] DEFAULT NULL
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
    WITH taken AS MATERIALIZED (
        SELECT t.*, coalesce(q.id, (stafette.queue_of_store(t.store_id)).id) AS queue_id,
               coalesce(q.name, (stafette.queue_of_store(t.store_id)).name) AS queue
        FROM stafette.take_batch(asks, budget) AS t
        LEFT JOIN LATERAL (SELECT * FROM stafette.queues AS q WHERE q.store_id = t.store_id LIMIT 1) AS q ON true
    ), kept AS (
        INSERT INTO stafette.received
            (id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body,
             client_id, session, request, received_at)
        SELECT t.id, t.queue_id, t.receiver_id, t.sender_id, t.rank, t.deliveries, t.context, t.arrived_at,
               t.expires_at, t.headers, t.body, clients[t.place], sessions[t.place], request_ids[t.place], now()
        FROM taken AS t WHERE sessions[t.place] IS NOT NULL AND t.fault IS NULL
    ), forgotten AS (       -- as forget_seen() does; a statement of its own would cost more than its rows
        DELETE FROM stafette.received AS r WHERE r.ctid = ANY (ARRAY(
            SELECT k.tid
            FROM unnest(seen_sessions, seen_requests) AS s (session, request)
            CROSS JOIN LATERAL (
                SELECT r.ctid AS tid FROM stafette.received AS r
                WHERE r.session = s.session AND r.request = s.request OFFSET 0
            ) AS k
        ))
    )
    SELECT t.place, t.fault, t.detail, t.id, t.queue,
           coalesce((SELECT c.name FROM stafette.clients AS c WHERE c.id = t.sender_id),
                    stafette.name_of_client(t.sender_id)),
           CASE WHEN t.receiver_id <> 0 THEN (SELECT c.name FROM stafette.clients AS c WHERE c.id = t.receiver_id) END,
           t.context, 10 - t.rank, t.arrived_at,
           t.deliveries::integer,
           CASE WHEN t.fault IS NOT NULL OR stafette.is_readable(t.headers, t.arrived_at) THEN t.headers
           ELSE stafette.refuse_unreadable(t.id, t.queue) END,
           t.body, NULL::bigint
    FROM taken AS t
    ORDER BY t.place, CASE WHEN by_arrival[t.place] THEN 0 ELSE t.rank END, t.id;
END
$$;
