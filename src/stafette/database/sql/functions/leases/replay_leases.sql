-- The leases that these requests have taken already, if their answers were lost, as lease_batch() returned them. A
-- request that took none, or whose leases have ended, has no row. For `budget` see replay_batch().
CREATE OR REPLACE FUNCTION stafette.replay_leases(
    clients integer[], sessions bigint[], request_ids bigint[], by_arrival boolean[], budget bigint
) RETURNS SETOF stafette.answer
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    RETURN QUERY
    SELECT k.place::integer, CASE WHEN k.is_late THEN 0 END, NULL::text, k.id, k.queue, k.sender, k.receiver, k.context,
           10 - k.rank, k.arrived_at, k.deliveries::integer,
           CASE WHEN NOT k.is_late THEN k.headers END, CASE WHEN NOT k.is_late THEN k.body END, k.token
    FROM (
        SELECT a.place, a.by_arrival, q.name AS queue, s.name AS sender, v.name AS receiver, k.*,
               coalesce(sum(m.size) OVER earlier, 0) >= budget AS is_late
        FROM unnest(clients, sessions, request_ids, by_arrival) WITH ORDINALITY
             AS a (client, session, request, by_arrival, place)
        CROSS JOIN LATERAL (
            SELECT * FROM stafette.leased AS l
            WHERE l.session = a.session AND l.session IS NOT NULL AND l.request = a.request OFFSET 0
        ) AS k
        CROSS JOIN LATERAL (SELECT stafette.message_size(k.headers, k.body) AS size) AS m
        JOIN stafette.queues AS q ON q.id = k.queue_id
        JOIN stafette.clients AS s ON s.id = k.sender_id
        LEFT JOIN stafette.clients AS v ON v.id = k.receiver_id
        WHERE k.holder_id = a.client AND k.leased_until > now()
        WINDOW earlier AS (ORDER BY a.place GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ) AS k
    ORDER BY k.place, CASE WHEN k.by_arrival THEN 0 ELSE k.rank END, k.id;
END
$$;
