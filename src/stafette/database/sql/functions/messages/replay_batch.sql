-- The messages that these requests have received or leased already, if their answers were lost: in reading order, and as
-- receive_batch() and lease_batch() returned them. A request that got nothing, whose record is forgotten, or whose
-- leases have ended, has no row.
--
-- `budget` is for the bytes of all answers together. One that comes when it is spent has fault 0: ask again. So it is
-- exceeded by one answer at most.
CREATE OR REPLACE FUNCTION stafette.replay_batch(
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
            SELECT r.id, r.queue_id, r.receiver_id, r.sender_id, r.rank, r.deliveries, r.context, r.arrived_at,
                   r.headers, r.body, NULL::bigint AS token
            FROM stafette.received AS r
            WHERE r.session = a.session AND r.request = a.request AND r.client_id = a.client
            UNION ALL
            SELECT l.id, l.queue_id, l.receiver_id, l.sender_id, l.rank, l.deliveries, l.context, l.arrived_at,
                   l.headers, l.body, l.token
            FROM stafette.leased AS l
            WHERE l.session = a.session AND l.session IS NOT NULL AND l.request = a.request AND l.holder_id = a.client
              AND l.leased_until > now()
        ) AS k
        CROSS JOIN LATERAL (SELECT stafette.message_size(k.headers, k.body) AS size) AS m
        JOIN stafette.queues AS q ON q.id = k.queue_id
        JOIN stafette.clients AS s ON s.id = k.sender_id
        LEFT JOIN stafette.clients AS v ON v.id = k.receiver_id
        WINDOW earlier AS (ORDER BY a.place GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ) AS k
    ORDER BY k.place, CASE WHEN k.by_arrival THEN 0 ELSE k.rank END, k.id;
END
$$;
