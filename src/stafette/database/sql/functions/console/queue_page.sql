-- A page of the queues whose name contains a text, in any case: by name, by number of ready messages (most first) or by
-- their oldest message. Numbers are from the last count; the next page begins after sort_key and name of the last row.
CREATE OR REPLACE FUNCTION stafette.queue_page(
    part text, sorted_by text, are_personal boolean, after_key bigint, after_name text, at_most integer
) RETURNS TABLE (
    queue stafette.queue_list, sort_key bigint, ready bigint, delayed bigint, leased bigint, dead bigint,
    oldest_at timestamptz
)
LANGUAGE sql STABLE AS $$
    SELECT q, p.sort_key, coalesce(p.ready, 0), coalesce(p.delayed, 0), coalesce(p.leased, 0), coalesce(p.dead, 0),
           p.oldest_at
    FROM (
        SELECT q.id, s.ready, s.delayed, s.leased, s.dead, s.oldest_at, k.sort_key
        FROM stafette.queues AS q
        LEFT JOIN stafette.queue_message_counts AS s ON s.queue_id = q.id
        CROSS JOIN LATERAL (
            SELECT CASE sorted_by
                       WHEN 'ready' THEN -coalesce(s.ready, 0)
                       WHEN 'oldest' THEN coalesce((extract(epoch FROM s.oldest_at) * 1000000)::bigint,
                                                   9223372036854775807)
                       ELSE 0 END AS sort_key
        ) AS k
        WHERE (part = '' OR position(lower(part) IN lower(q.name)) > 0)
          AND (are_personal IS NULL OR are_personal = (q.owner_id IS NOT NULL))
          AND (after_name IS NULL OR (k.sort_key, q.name) > (after_key, after_name))
        ORDER BY k.sort_key, q.name LIMIT at_most
    ) AS p
    JOIN stafette.queue_list AS q ON q.id = p.id
    ORDER BY p.sort_key, q.name
$$;
