-- Moves leased messages back to ready, or to delayed if they have a delay. A message that was delivered as often as its
-- queue allows goes to the queue's dead-letter queue, or, if there is none, to dead. In a dead-letter queue it keeps its
-- receiver; but a personal queue is its owner's, and where own messages are excluded one to oneself is for anyone. The
-- caller holds the row locks. Returns the queue in which each message is ready now; NULL if it is
-- not ready.
CREATE OR REPLACE FUNCTION stafette.give_back(ids bigint[], delays double precision[])
RETURNS TABLE (id bigint, queue text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH returned AS MATERIALIZED (
        DELETE FROM stafette.leased AS l
        USING unnest(ids, delays) AS b (id, delay), stafette.queues AS q
        WHERE l.id = b.id AND l.id = ANY (ids) AND q.id = l.queue_id
        RETURNING l.*, greatest(b.delay, 0) AS delay, q.name AS queue, q.store_id, q.dead_letter_id,
                  l.deliveries >= q.max_deliveries AS exhausted
    ), now_ready AS (
        INSERT INTO stafette.ready
            (id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body)
        SELECT id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body
        FROM returned WHERE NOT exhausted AND coalesce(delay, 0) = 0
        UNION ALL
        SELECT r.id, d.store_id,
               CASE WHEN d.exclude_own AND r.receiver_id = r.sender_id THEN 0
                    ELSE coalesce(d.owner_id, r.receiver_id) END,
               r.sender_id, r.rank, 0, r.context, r.arrived_at, NULL,
               coalesce(r.headers, '{}') || jsonb_build_object('stafette-died-in', r.queue), r.body
        FROM returned AS r
        CROSS JOIN LATERAL (SELECT * FROM stafette.queues AS q WHERE q.id = r.dead_letter_id LIMIT 1) AS d
        WHERE r.exhausted
    ), now_delayed AS (
        INSERT INTO stafette.delayed
            (id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body,
             due_at)
        SELECT id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body,
               now() + delay * interval '1 second'
        FROM returned WHERE NOT exhausted AND delay > 0
    ), now_dead AS (
        INSERT INTO stafette.dead
            (id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body)
        SELECT id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body
        FROM returned WHERE exhausted AND dead_letter_id IS NULL
    )
    SELECT b.id, CASE WHEN b.exhausted THEN (SELECT d.name FROM stafette.queues AS d WHERE d.id = b.dead_letter_id)
                      WHEN coalesce(b.delay, 0) = 0 THEN b.queue END
    FROM returned AS b;
END
$$;
