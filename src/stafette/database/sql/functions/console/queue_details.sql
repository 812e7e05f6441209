-- One queue. Each state is counted now up to 10,000 messages; beyond that, the last count of all messages is used, and
-- the result is not exact. Leases have no index by queue, so at most 30,000 of all leases are searched.
CREATE OR REPLACE FUNCTION stafette.queue_details(queue_name text) RETURNS TABLE (
    queue stafette.queue_list, ready bigint, delayed bigint, leased bigint, dead bigint, oldest_at timestamptz,
    exact boolean, counted_at timestamptz, top_senders jsonb, top_receivers jsonb
)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    quick      CONSTANT integer := 10000;
    budget     CONSTANT integer := 30000;
    target     stafette.queues := stafette.get_queue(queue_name);
    last_count stafette.queue_message_counts;
    at         timestamptz := (SELECT s.at FROM stafette.message_counts AS s);
BEGIN
    SELECT * INTO last_count FROM stafette.queue_message_counts AS s WHERE s.queue_id = target.id;
    RETURN QUERY
    WITH head AS MATERIALIZED (
        SELECT r.sender_id, r.receiver_id, r.arrived_at,
               r.receiver_id NOT IN (SELECT stafette.discarded_receivers('ready')) AS counts
        FROM stafette.ready AS r
        WHERE r.store_id = target.store_id ORDER BY r.store_id, r.receiver_id, r.rank, r.id LIMIT quick + 1
    ), now AS MATERIALIZED (
        SELECT (SELECT CASE WHEN count(*) <= quick THEN count(*) FILTER (WHERE h.counts) ELSE quick + 1 END
                FROM head AS h) AS ready,
               (SELECT min(h.arrived_at) FROM head AS h WHERE h.counts) AS oldest_at,
               (SELECT CASE WHEN count(*) <= quick THEN count(*) FILTER (
                                WHERE m.receiver_id NOT IN (SELECT stafette.discarded_receivers('delayed')))
                            ELSE quick + 1 END
                FROM (SELECT m.receiver_id FROM stafette.delayed AS m
                      WHERE m.store_id = target.store_id LIMIT quick + 1) AS m) AS delayed,
               (SELECT CASE WHEN count(*) <= quick THEN count(*) FILTER (
                                WHERE m.receiver_id NOT IN (SELECT stafette.discarded_receivers('dead')))
                            ELSE quick + 1 END
                FROM (SELECT m.receiver_id FROM stafette.dead AS m
                      WHERE m.queue_id = target.id LIMIT quick + 1) AS m) AS dead,
               l.leased, l.looked_at
        FROM (SELECT count(*) FILTER (WHERE m.queue_id = target.id
                                        AND stafette.is_held(m.queue_id, m.receiver_id)) AS leased,
                     count(*) AS looked_at
              FROM (SELECT m.queue_id, m.receiver_id FROM stafette.leased AS m ORDER BY m.id LIMIT budget) AS m) AS l
    ), checked AS (
        SELECT n.*, n.ready <= quick AND n.delayed <= quick AND n.dead <= quick AND n.looked_at < budget
                    AND n.leased <= quick AS exact
        FROM now AS n
    )
    SELECT q,
           CASE WHEN j.ready <= quick THEN j.ready ELSE greatest(j.ready, last_count.ready) END,
           CASE WHEN j.delayed <= quick THEN j.delayed ELSE greatest(j.delayed, last_count.delayed) END,
           CASE WHEN j.looked_at < budget AND j.leased <= quick THEN j.leased
                ELSE greatest(j.leased, last_count.leased) END,
           CASE WHEN j.dead <= quick THEN j.dead ELSE greatest(j.dead, last_count.dead) END,
           CASE WHEN j.ready <= quick THEN j.oldest_at ELSE least(j.oldest_at, last_count.oldest_at) END,
           j.exact,
           CASE WHEN j.exact THEN now() ELSE coalesce(at, now()) END,
           (SELECT coalesce(jsonb_agg(jsonb_build_object('name', t.name, 'count', t.count)
                                      ORDER BY t.count DESC, t.name), '[]')
            FROM (SELECT c.name, s.count
                  FROM (SELECT h.sender_id, count(*) AS count FROM head AS h WHERE h.counts GROUP BY h.sender_id
                        ORDER BY 2 DESC LIMIT 10) AS s
                  JOIN stafette.clients AS c ON c.id = s.sender_id) AS t),
           (SELECT coalesce(jsonb_agg(jsonb_build_object('name', t.name, 'count', t.count)
                                      ORDER BY t.count DESC, t.name), '[]')
            FROM (SELECT coalesce(c.name, '') AS name, s.count
                  FROM (SELECT h.receiver_id, count(*) AS count FROM head AS h WHERE h.counts
                        GROUP BY h.receiver_id
                        ORDER BY 2 DESC LIMIT 10) AS s
                  LEFT JOIN stafette.clients AS c ON c.id = s.receiver_id) AS t)
    FROM checked AS j
    JOIN stafette.queue_list AS q ON q.id = target.id;
END
$$;
