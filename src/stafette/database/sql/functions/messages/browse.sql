-- A page of a queue's ready messages in order of arrival, without locks. A viewer sees its own lanes; without a viewer
-- (an operator) all. Lanes and ranks are found by a skip scan of the key, so a page costs one probe for each of them,
-- however long the queue is. It is cut to `budget` bytes, and has at least one message.
CREATE OR REPLACE FUNCTION stafette.browse(viewer integer, in_queue text, after_id bigint, at_most integer, budget bigint)
RETURNS SETOF stafette.answer
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
    target stafette.queues := stafette.get_queue(in_queue);
BEGIN
    IF target.owner_id <> viewer THEN
        PERFORM stafette.raise_fault(107, format('queue %s is personal; only its owner may look into it', in_queue));
    END IF;
    RETURN QUERY
    WITH RECURSIVE lane AS (
        (SELECT r.receiver_id, r.rank FROM stafette.ready AS r
         WHERE r.store_id = target.store_id ORDER BY r.receiver_id, r.rank LIMIT 1)
        UNION ALL
        SELECT further.receiver_id, further.rank
        FROM lane
        CROSS JOIN LATERAL (
            SELECT r.receiver_id, r.rank FROM stafette.ready AS r
            WHERE r.store_id = target.store_id AND (r.receiver_id, r.rank) > (lane.receiver_id, lane.rank)
            ORDER BY r.receiver_id, r.rank LIMIT 1
        ) AS further
    )
    SELECT 1, NULL::integer, NULL::text, m.id, target.name, s.name, v.name, m.context, 10 - m.rank, m.arrived_at,
           m.deliveries::integer,
           CASE WHEN stafette.is_readable(m.headers, m.arrived_at) THEN m.headers
           ELSE stafette.refuse_unreadable(m.id, target.name) END,
           m.body, NULL::bigint
    FROM (
        SELECT page.*, row_number() OVER w AS turn, sum(stafette.message_size(page.headers, page.body)) OVER w AS total
        FROM (
            SELECT head.*
            FROM lane
            CROSS JOIN LATERAL (
                SELECT r.* FROM stafette.ready AS r
                WHERE r.store_id = target.store_id AND r.receiver_id = lane.receiver_id AND r.rank = lane.rank
                  AND r.id > coalesce(after_id, 0) AND (r.expires_at IS NULL OR r.expires_at > now())
                  AND NOT (target.exclude_own AND r.sender_id = viewer IS TRUE)
                ORDER BY r.id LIMIT at_most
            ) AS head
            WHERE (viewer IS NULL OR lane.receiver_id IN (0, viewer))
              AND lane.receiver_id NOT IN (SELECT stafette.discarded_receivers('ready'))
            ORDER BY head.id LIMIT at_most
        ) AS page
        WINDOW w AS (ORDER BY page.id)
    ) AS m
    JOIN stafette.clients AS s ON s.id = m.sender_id
    LEFT JOIN stafette.clients AS v ON v.id = m.receiver_id
    WHERE m.turn = 1 OR m.total <= budget
    ORDER BY m.id;
END
$$;
