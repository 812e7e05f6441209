-- The leases that these requests have taken already, if their answers were lost, as lease_batch() returned them. A
-- request that took none, or whose leases have ended, has no row.
CREATE OR REPLACE FUNCTION stafette.replay_leases(
    clients integer[], sessions bigint[], request_ids bigint[], by_arrival boolean[]
) RETURNS SETOF stafette.answer
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    RETURN QUERY
    SELECT a.place::integer, NULL::integer, NULL::text, k.id, q.name, s.name, v.name, k.context, 10 - k.rank,
           k.arrived_at, k.deliveries::integer, k.headers, k.body, k.token
    FROM unnest(clients, sessions, request_ids, by_arrival) WITH ORDINALITY
         AS a (client, session, request, by_arrival, place)
    CROSS JOIN LATERAL (
        SELECT * FROM stafette.leased AS l
        WHERE l.session = a.session AND l.session IS NOT NULL AND l.request = a.request OFFSET 0
    ) AS k
    JOIN stafette.queues AS q ON q.id = k.queue_id
    JOIN stafette.clients AS s ON s.id = k.sender_id
    LEFT JOIN stafette.clients AS v ON v.id = k.receiver_id
    WHERE k.holder_id = a.client AND k.leased_until > now()
    ORDER BY a.place, CASE WHEN a.by_arrival THEN 0 ELSE k.rank END, k.id;
END
$$;
