-- Maintenance: counts all messages by queue and state, in one pass over indexes, and finds each queue's oldest: the
-- earliest head of its lanes. One broker at a time, at the earliest `pause` seconds after the last count, and for at
-- most a twentieth of the time; true if it counted. Only changes are written.
CREATE OR REPLACE FUNCTION stafette.count_all_messages(pause double precision, force boolean DEFAULT false)
RETURNS boolean
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_nestloop = off      -- even with wrong statistics: no pass over one list per queue
AS $$
DECLARE
    began  timestamptz := clock_timestamp();
    online bigint;
BEGIN
    BEGIN
        LOCK TABLE stafette.count_lock IN EXCLUSIVE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    IF NOT force AND EXISTS (
        SELECT FROM stafette.message_counts AS s
        WHERE s.at + greatest(pause, 20 * s.seconds) * interval '1 second' > began
          AND s.at <= began                                  -- a clock that was set back must not stop the counting
    ) THEN
        RETURN false;
    END IF;

    WITH lane AS MATERIALIZED (
        SELECT r.store_id, r.receiver_id, r.rank, count(*) AS messages, min(r.id) AS head
        FROM stafette.ready AS r GROUP BY r.store_id, r.receiver_id, r.rank
    ), waiting AS MATERIALIZED (
        SELECT DISTINCT ON (l.store_id) l.store_id, l.receiver_id, l.rank, l.head,
               sum(l.messages) OVER (PARTITION BY l.store_id)::bigint AS messages
        FROM lane AS l WHERE l.receiver_id NOT IN (SELECT stafette.discarded_receivers('ready'))
        ORDER BY l.store_id, l.head
    ), counted AS MATERIALIZED (
        SELECT q.id AS queue_id, coalesce(w.messages, 0) AS ready,
               coalesce(y.messages, 0) - coalesce(yx.messages, 0) AS delayed, coalesce(l.messages, 0) AS leased,
               coalesce(d.messages, 0) - coalesce(dx.messages, 0) AS dead,
               (SELECT r.arrived_at FROM stafette.ready AS r
                WHERE r.store_id = w.store_id AND r.receiver_id = w.receiver_id AND r.rank = w.rank AND r.id = w.head
               ) AS oldest_at
        FROM stafette.queues AS q
        LEFT JOIN waiting AS w ON w.store_id = q.store_id
        LEFT JOIN (SELECT m.store_id, count(*) AS messages FROM stafette.delayed AS m GROUP BY m.store_id) AS y
            ON y.store_id = q.store_id
        LEFT JOIN (SELECT m.queue_id, count(*) AS messages FROM stafette.leased AS m
                   WHERE m.receiver_id NOT IN (SELECT c.id FROM stafette.clients AS c WHERE c.deleted_at IS NOT NULL)
                   GROUP BY m.queue_id) AS l
            ON l.queue_id = q.id
        LEFT JOIN (SELECT m.queue_id, count(*) AS messages FROM stafette.dead AS m GROUP BY m.queue_id) AS d
            ON d.queue_id = q.id
        -- What is addressed to deleted clients is counted apart, so that the passes above need their indexes only.
        LEFT JOIN (SELECT m.store_id, count(*) AS messages FROM stafette.delayed AS m
                   WHERE m.receiver_id <> 0
                     AND m.receiver_id = ANY (ARRAY(SELECT stafette.discarded_receivers('delayed')))
                   GROUP BY m.store_id) AS yx
            ON yx.store_id = q.store_id
        LEFT JOIN (SELECT m.queue_id, count(*) AS messages FROM stafette.dead AS m
                   WHERE m.receiver_id <> 0 AND m.receiver_id = ANY (ARRAY(SELECT stafette.discarded_receivers('dead')))
                   GROUP BY m.queue_id) AS dx
            ON dx.queue_id = q.id
    ), by_queue AS (
        INSERT INTO stafette.queue_message_counts (queue_id, ready, delayed, leased, dead, oldest_at)
        SELECT c.queue_id, c.ready, c.delayed, c.leased, c.dead, c.oldest_at
        FROM counted AS c
        LEFT JOIN stafette.queue_message_counts AS s ON s.queue_id = c.queue_id
        WHERE CASE WHEN s.queue_id IS NULL THEN c.ready + c.delayed + c.leased + c.dead > 0
                   ELSE (s.ready, s.delayed, s.leased, s.dead, s.oldest_at)
                        IS DISTINCT FROM (c.ready, c.delayed, c.leased, c.dead, c.oldest_at) END
        ON CONFLICT (queue_id) DO UPDATE SET ready = excluded.ready, delayed = excluded.delayed,
            leased = excluded.leased, dead = excluded.dead, oldest_at = excluded.oldest_at
    ), deleted AS (
        DELETE FROM stafette.queue_message_counts AS s
        WHERE NOT EXISTS (SELECT FROM stafette.queues AS q WHERE q.id = s.queue_id)
    )
    INSERT INTO stafette.message_counts (at, seconds, ready, delayed, leased, dead, oldest_at)
    SELECT began, 0, coalesce(sum(c.ready), 0), coalesce(sum(c.delayed), 0), coalesce(sum(c.leased), 0),
           coalesce(sum(c.dead), 0), min(c.oldest_at)
    FROM counted AS c
    ON CONFLICT (one_row) DO UPDATE SET at = excluded.at, ready = excluded.ready, delayed = excluded.delayed,
        leased = excluded.leased, dead = excluded.dead, oldest_at = excluded.oldest_at;

    IF NOT EXISTS (SELECT FROM stafette.queue_depths AS d WHERE d.at = date_trunc('minute', began)) THEN
        INSERT INTO stafette.queue_depths (queue_id, at, messages)
        SELECT s.queue_id, date_trunc('minute', began), s.ready
        FROM stafette.queue_message_counts AS s ORDER BY s.ready DESC, s.queue_id LIMIT 100;
    END IF;

    online := (SELECT count(*) FROM stafette.client_list AS c WHERE c.broker IS NOT NULL);
    INSERT INTO stafette.history (span, at, ready, delayed, leased, dead, online)
    SELECT t.span, date_bin(t.span * interval '1 second', began, 'epoch'), s.ready, s.delayed, s.leased, s.dead, online
    FROM stafette.message_counts AS s CROSS JOIN (VALUES (10), (300)) AS t (span)
    ORDER BY t.span                                    -- as in add_history(), else the two could deadlock
    ON CONFLICT (span, at) DO UPDATE SET ready = excluded.ready, delayed = excluded.delayed, leased = excluded.leased,
        dead = excluded.dead, online = excluded.online;

    UPDATE stafette.message_counts SET seconds = extract(epoch FROM clock_timestamp() - began);
    RETURN true;
END
$$;
