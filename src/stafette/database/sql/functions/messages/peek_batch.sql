-- What receive_batch() would return for the same asks, neither removed nor locked.
CREATE OR REPLACE FUNCTION stafette.peek_batch(
    clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[]
) RETURNS SETOF stafette.answer
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    asks stafette.ask[] := stafette.resolve_asks(clients, queues, senders, contexts, by_arrival, wanted, false);
BEGIN
    RETURN QUERY
    SELECT a.place, NULL::integer, NULL::text, t.id,
           (SELECT q.name FROM stafette.queues AS q WHERE q.store_id = t.store_id),
           (SELECT c.name FROM stafette.clients AS c WHERE c.id = t.sender_id),
           CASE WHEN t.receiver_id <> 0 THEN (SELECT c.name FROM stafette.clients AS c WHERE c.id = t.receiver_id) END,
           t.context, 10 - t.rank, t.arrived_at,
           t.deliveries::integer,
           CASE WHEN stafette.is_readable(t.headers, t.arrived_at) THEN t.headers
           ELSE stafette.refuse_unreadable(t.id, (stafette.queue_of_store(t.store_id)).name) END,
           t.body, NULL::bigint
    FROM unnest(asks) AS a
    CROSS JOIN LATERAL stafette.peek_next(a.me, a.store_id, a.sender_id, a.context, a.by_arrival, a.wanted) AS l
    CROSS JOIN LATERAL (SELECT * FROM stafette.ready AS r WHERE r.ctid = l.tid LIMIT 1) AS t
    WHERE a.fault IS NULL
    ORDER BY a.place, CASE WHEN a.by_arrival THEN 0 ELSE t.rank END, t.id;

    RETURN QUERY SELECT * FROM stafette.faults(asks);
END
$$;
