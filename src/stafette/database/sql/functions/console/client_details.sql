-- One client, with the number of ready messages that it has sent and that wait for it, by queue, for 100 queues at most
-- and up to 1,000 in each. Queues are found by a skip scan of the index.
CREATE OR REPLACE FUNCTION stafette.client_details(client_name text) RETURNS TABLE (
    id integer, name text, mode text, registered_at timestamptz, last_seen_at timestamptz, broker text,
    online_since timestamptz, has_secret boolean, personal_queue text, sent jsonb, waiting jsonb
)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
    target_id integer := (SELECT c.id FROM stafette.find_client(client_name) AS c);
BEGIN
    RETURN QUERY
    WITH RECURSIVE sent_to AS (
        (SELECT r.store_id FROM stafette.ready AS r
         WHERE r.sender_id = target_id ORDER BY r.sender_id, r.store_id LIMIT 1)
        UNION ALL
        SELECT further.store_id FROM sent_to AS t CROSS JOIN LATERAL (
            SELECT r.store_id FROM stafette.ready AS r
            WHERE r.sender_id = target_id AND r.store_id > t.store_id ORDER BY r.sender_id, r.store_id LIMIT 1
        ) AS further
    ), waits_in AS (
        (SELECT r.store_id FROM stafette.ready AS r
         WHERE r.receiver_id = target_id AND r.receiver_id <> 0 ORDER BY r.receiver_id, r.store_id LIMIT 1)
        UNION ALL
        SELECT further.store_id FROM waits_in AS t CROSS JOIN LATERAL (
            SELECT r.store_id FROM stafette.ready AS r
            WHERE r.receiver_id = target_id AND r.receiver_id <> 0 AND r.store_id > t.store_id
            ORDER BY r.receiver_id, r.store_id LIMIT 1
        ) AS further
    )
    SELECT c.id, c.name, c.mode, c.registered_at, c.last_seen_at, l.broker,
           CASE WHEN l.broker IS NOT NULL THEN s.since END, c.secret IS NOT NULL, '@' || c.name,
           (SELECT coalesce(jsonb_agg(jsonb_build_object('name', q.name, 'count', n.count)
                                      ORDER BY n.count DESC, q.name), '[]')
            FROM (SELECT t.store_id, q.name FROM sent_to AS t
                  JOIN stafette.queues AS q ON q.store_id = t.store_id LIMIT 100) AS q
            CROSS JOIN LATERAL (
                SELECT count(*) AS count
                FROM (SELECT FROM stafette.ready AS r
                      WHERE r.sender_id = target_id AND r.store_id = q.store_id
                        AND r.receiver_id NOT IN (SELECT stafette.discarded_receivers('ready')) LIMIT 1000) AS r
            ) AS n),
           (SELECT coalesce(jsonb_agg(jsonb_build_object('name', q.name, 'count', n.count)
                                      ORDER BY n.count DESC, q.name), '[]')
            FROM (SELECT t.store_id, q.name FROM waits_in AS t
                  JOIN stafette.queues AS q ON q.store_id = t.store_id LIMIT 100) AS q
            CROSS JOIN LATERAL (
                SELECT count(*) AS count
                FROM (SELECT FROM stafette.ready AS r
                      WHERE r.receiver_id = target_id AND r.store_id = q.store_id LIMIT 1000) AS r
            ) AS n)
    FROM stafette.clients AS c
    JOIN stafette.client_list AS l ON l.id = c.id
    LEFT JOIN stafette.sessions AS s ON s.client_id = c.id
    WHERE c.id = target_id;
END
$$;
