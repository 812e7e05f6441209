-- Removes and returns messages for many asks (reads), of some `budget` bytes in all (see take_batch). A fault is a row of
-- its own. The messages of an ask come in reading order; an ask without messages has no row.
CREATE OR REPLACE FUNCTION stafette.receive_batch(
    clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[],
    max_bytes bigint[], budget bigint
) RETURNS SETOF stafette.answer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    asks stafette.ask[];
BEGIN
    PERFORM stafette.lock_catalog();
    asks := stafette.resolve_asks(clients, queues, senders, contexts, by_arrival, wanted, max_bytes, budget, true);

    RETURN QUERY
    SELECT t.place, t.fault, t.detail, t.id,
           coalesce((SELECT q.name FROM stafette.queues AS q WHERE q.id = t.queue_id),
                    stafette.name_of_queue(t.queue_id)),
           coalesce((SELECT c.name FROM stafette.clients AS c WHERE c.id = t.sender_id),
                    stafette.name_of_client(t.sender_id)),
           CASE WHEN t.receiver_id <> 0 THEN (SELECT c.name FROM stafette.clients AS c WHERE c.id = t.receiver_id) END,
           t.context, 10 - t.rank, t.arrived_at,
           t.deliveries::integer, t.headers, t.body, NULL::bigint
    FROM stafette.take_batch(asks, budget) AS t
    ORDER BY t.place, CASE WHEN by_arrival[t.place] THEN 0 ELSE t.rank END, t.id;

    RETURN QUERY SELECT * FROM stafette.faults(asks);
END
$$;
