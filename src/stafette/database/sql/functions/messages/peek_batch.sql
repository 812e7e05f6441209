-- What receive_batch() would return for the same asks, neither removed nor locked.
CREATE OR REPLACE FUNCTION stafette.peek_batch(
    clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[],
    max_bytes bigint[], budget bigint
) RETURNS SETOF stafette.answer
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    asks stafette.ask[] := stafette.resolve_asks(clients, queues, senders, contexts, by_arrival, wanted, max_bytes, budget, false);
BEGIN
    RETURN QUERY
    WITH next AS MATERIALIZED (
        SELECT a.place, a.by_arrival, a.max_bytes, l.tid, l.fits,
               sum(l.size) OVER (ORDER BY a.place) - sum(l.size) OVER (PARTITION BY a.place) AS spent
        FROM unnest(asks) AS a
        CROSS JOIN LATERAL stafette.peek_fitting(a, a.wanted, '{}', budget, a.max_bytes) AS l
        WHERE a.fault IS NULL
    ), judged AS (
        SELECT n.place, n.by_arrival, n.tid, n.max_bytes,
               CASE WHEN n.spent >= budget THEN 0 WHEN NOT n.fits THEN 101 END AS fault
        FROM next AS n
    )
    SELECT j.place, j.fault,
           CASE WHEN j.fault = 101 THEN
               format('the next message is larger than the %s bytes that the client takes', j.max_bytes) END,
           t.id,
           (SELECT q.name FROM stafette.queues AS q WHERE q.store_id = t.store_id),
           (SELECT c.name FROM stafette.clients AS c WHERE c.id = t.sender_id),
           CASE WHEN t.receiver_id <> 0 THEN (SELECT c.name FROM stafette.clients AS c WHERE c.id = t.receiver_id) END,
           t.context, 10 - t.rank, t.arrived_at,
           t.deliveries::integer,
           CASE WHEN t.id IS NULL OR stafette.is_readable(t.headers, t.arrived_at) THEN t.headers
           ELSE stafette.refuse_unreadable(t.id, (stafette.queue_of_store(t.store_id)).name) END,
           t.body, NULL::bigint
    FROM judged AS j
    LEFT JOIN LATERAL (SELECT * FROM stafette.ready AS r WHERE r.ctid = j.tid LIMIT 1) AS t ON j.fault IS NULL
    ORDER BY j.place, CASE WHEN j.by_arrival THEN 0 ELSE t.rank END, t.id;

    RETURN QUERY SELECT * FROM stafette.faults(asks);
END
$$;
