-- Moves leased messages on: back to ready, or to delayed when a delay is asked for; and when a message has been
-- delivered as often as its queue allows, to the queue's dead letter queue (for anyone, or, if that is a personal one,
-- for its owner), or, where there is none, to dead. The caller holds the rows' locks. Returns the queue in which
-- each is ready now, NULL for those that are not.
CREATE OR REPLACE FUNCTION stafette.give_back(ids bigint[], delays double precision[])
RETURNS TABLE (id bigint, queue text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH back AS MATERIALIZED (
        DELETE FROM stafette.leased AS l
        USING unnest(ids, delays) AS b (id, delay), stafette.queues AS q
        WHERE l.id = b.id AND l.id = ANY (ids) AND q.id = l.queue_id
        RETURNING l.*, greatest(b.delay, 0) AS delay, q.name AS queue, q.dead_letter_id,
                  l.deliveries >= q.max_deliveries AS spent
    ), again AS (
        INSERT INTO stafette.ready
            (id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body)
        SELECT id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body
        FROM back WHERE NOT spent AND coalesce(delay, 0) = 0
        UNION ALL
        SELECT id, dead_letter_id,
               coalesce((SELECT d.owner_id FROM stafette.queues AS d WHERE d.id = back.dead_letter_id), 0), sender_id,
               rank, 0, context, arrived_at, NULL,
               coalesce(headers, '{}') || jsonb_build_object('stafette-died-in', queue), body
        FROM back WHERE spent AND dead_letter_id IS NOT NULL
    ), later AS (
        INSERT INTO stafette.delayed
            (id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body,
             due_at)
        SELECT id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body,
               now() + delay * interval '1 second'
        FROM back WHERE NOT spent AND delay > 0
    ), died AS (
        INSERT INTO stafette.dead
            (id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body)
        SELECT id, queue_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body
        FROM back WHERE spent AND dead_letter_id IS NULL
    )
    SELECT b.id, CASE WHEN b.spent THEN (SELECT d.name FROM stafette.queues AS d WHERE d.id = b.dead_letter_id)
                      WHEN coalesce(b.delay, 0) = 0 THEN b.queue END
    FROM back AS b;
END
$$;
