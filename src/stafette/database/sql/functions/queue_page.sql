-- A page of the queues whose name contains a text, in any case: by name, by how many are ready (most first) or by their
-- oldest message. All numbers are of the last stock; sort_key and name of a page's last row are where the next begins.
CREATE OR REPLACE FUNCTION stafette.queue_page(
    part text, sorted_by text, are_personal boolean, after_key bigint, after_name text, at_most integer
) RETURNS TABLE (
    sort_key bigint, id integer, name text, creator text, created_at timestamptz, owner text, ready bigint,
    delayed bigint, leased bigint, dead bigint, oldest_at timestamptz, exclude_own boolean, max_body integer,
    max_deliveries integer, dead_letter text
)
LANGUAGE sql STABLE AS $$
    SELECT p.sort_key, p.id, p.name, coalesce(c.name, 'operator'), p.created_at, o.name, coalesce(p.ready, 0),
           coalesce(p.delayed, 0), coalesce(p.leased, 0), coalesce(p.dead, 0), p.oldest_at, p.exclude_own, p.max_body,
           p.max_deliveries::integer, d.name
    FROM (
        SELECT q.*, s.ready, s.delayed, s.leased, s.dead, s.oldest_at, k.sort_key
        FROM stafette.queues AS q
        LEFT JOIN stafette.stock_of_queues AS s ON s.queue_id = q.id
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
    LEFT JOIN stafette.clients AS c ON c.id = p.creator_id
    LEFT JOIN stafette.clients AS o ON o.id = p.owner_id
    LEFT JOIN stafette.queues AS d ON d.id = p.dead_letter_id
    ORDER BY p.sort_key, p.name
$$;
