-- Messages with this id or context. Only ready ones have an index by context; of the other states 20,000 each are
-- searched.
CREATE OR REPLACE FUNCTION stafette.search_messages(number bigint, at_most integer)
RETURNS SETOF stafette.message_list
LANGUAGE sql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_custom_plan
AS $$
    WITH matches AS MATERIALIZED (
        SELECT 0 AS turn, 'ready' AS state, f.store_id, f.receiver_id, f.rank, number AS id
        FROM (SELECT i.last_value FROM stafette.message_id AS i WHERE i.last_value >= number) AS issued
        CROSS JOIN LATERAL stafette.find_in_ready(NULL, number) AS f
        UNION ALL
        SELECT 0, 'delayed', m.store_id, m.receiver_id, m.rank, m.id FROM stafette.delayed AS m WHERE m.id = number
        UNION ALL
        SELECT 0, 'leased', m.queue_id, m.receiver_id, m.rank, m.id FROM stafette.leased AS m WHERE m.id = number
        UNION ALL
        SELECT 1, m.state, m.store_id, m.receiver_id, m.rank, m.id
        FROM (
            (SELECT 'ready' AS state, r.store_id, r.receiver_id, r.rank, r.id, r.context FROM stafette.ready AS r
             WHERE r.context >= number AND r.context <= number ORDER BY r.context LIMIT at_most)
            UNION ALL
            (SELECT 'delayed', m.store_id, m.receiver_id, m.rank, m.id, m.context FROM stafette.delayed AS m
             ORDER BY m.id LIMIT 20000)
            UNION ALL
            (SELECT 'leased', m.queue_id, m.receiver_id, m.rank, m.id, m.context FROM stafette.leased AS m
             ORDER BY m.id LIMIT 20000)
            UNION ALL
            (SELECT 'dead', m.queue_id, m.receiver_id, m.rank, m.id,
                    CASE WHEN m.id = number THEN number ELSE m.context END
             FROM stafette.dead AS m ORDER BY m.queue_id, m.id LIMIT 20000)
        ) AS m
        WHERE m.context = number
    )
    SELECT l.*
    FROM (
        SELECT f.* FROM (SELECT DISTINCT ON (f.id) f.* FROM matches AS f ORDER BY f.id, f.turn) AS f
        ORDER BY f.turn, f.id LIMIT at_most
    ) AS f
    JOIN stafette.message_list AS l ON l.state = f.state AND l.store_id = f.store_id
        AND l.receiver_id = f.receiver_id AND l.rank = f.rank AND l.id = f.id
    ORDER BY f.turn, f.id
$$;
