-- A page of the ready messages that a client has sent (by queue, then in the queue's order), or that wait for it (by
-- queue, then in the order in which it gets them). The next page begins after the place of the last row; the caller
-- sorts the rows by place.
CREATE OR REPLACE FUNCTION stafette.client_message_page(
    client_name text, which text, after_place bigint[], at_most integer
) RETURNS TABLE (place bigint[], message stafette.message_list)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    target_id integer := (SELECT c.id FROM stafette.find_client(client_name) AS c);
    after     bigint[] := coalesce(after_place, ARRAY[0, -1, 0, 0]);
BEGIN
    IF target_id IS NULL THEN
        PERFORM stafette.raise_fault(105, format('there is no client %s', client_name));
    ELSIF which NOT IN ('sent', 'waiting') THEN
        PERFORM stafette.raise_fault(100, format('%s is neither sent nor waiting', which));
    ELSIF cardinality(after) <> 4 THEN
        PERFORM stafette.raise_fault(100, 'that is not where a page of these messages ended; begin with the first');
    END IF;
    RETURN QUERY
    WITH RECURSIVE sent_to AS (
        (SELECT r.store_id FROM stafette.ready AS r
         WHERE r.sender_id = target_id AND r.store_id >= after[1] AND which = 'sent'
         ORDER BY r.sender_id, r.store_id LIMIT 1)
        UNION ALL
        SELECT further.store_id FROM sent_to AS t CROSS JOIN LATERAL (
            SELECT r.store_id FROM stafette.ready AS r
            WHERE r.sender_id = target_id AND r.store_id > t.store_id ORDER BY r.sender_id, r.store_id LIMIT 1
        ) AS further
    ), waits_in AS (
        (SELECT r.store_id FROM stafette.ready AS r
         WHERE r.receiver_id = target_id AND r.receiver_id <> 0 AND r.store_id >= after[1] AND which = 'waiting'
         ORDER BY r.receiver_id, r.store_id LIMIT 1)
        UNION ALL
        SELECT further.store_id FROM waits_in AS t CROSS JOIN LATERAL (
            SELECT r.store_id FROM stafette.ready AS r
            WHERE r.receiver_id = target_id AND r.receiver_id <> 0 AND r.store_id > t.store_id
            ORDER BY r.receiver_id, r.store_id LIMIT 1
        ) AS further
    ), page AS MATERIALIZED (
        (SELECT m.store_id, m.receiver_id, m.rank, m.id
         FROM sent_to AS t
         JOIN stafette.queues AS q ON q.store_id = t.store_id
         CROSS JOIN LATERAL (
            SELECT r.store_id, r.receiver_id, r.rank, r.id FROM stafette.ready AS r
            WHERE (r.sender_id, r.store_id, r.receiver_id, r.rank, r.id)
                  > (target_id, t.store_id, CASE WHEN t.store_id = after[1] THEN after[2] ELSE -1 END,
                     CASE WHEN t.store_id = after[1] THEN after[3] ELSE 0 END,
                     CASE WHEN t.store_id = after[1] THEN after[4] ELSE 0 END)
              AND (r.sender_id, r.store_id) <= (target_id, t.store_id)
              AND r.receiver_id NOT IN (SELECT stafette.discarded_receivers('ready'))
            ORDER BY r.sender_id, r.store_id, r.receiver_id, r.rank, r.id LIMIT at_most
         ) AS m LIMIT at_most)
        UNION ALL
        (SELECT m.store_id, m.receiver_id, m.rank, m.id
         FROM waits_in AS t
         JOIN stafette.queues AS q ON q.store_id = t.store_id
         CROSS JOIN LATERAL (
            SELECT r.store_id, r.receiver_id, r.rank, r.id FROM stafette.ready AS r
            WHERE (r.store_id, r.receiver_id, r.rank, r.id) > (t.store_id, target_id, CASE WHEN t.store_id = after[1]
                       THEN after[3] ELSE 0 END, CASE WHEN t.store_id = after[1] THEN after[4] ELSE 0 END)
              AND (r.store_id, r.receiver_id) <= (t.store_id, target_id)
            ORDER BY r.store_id, r.receiver_id, r.rank, r.id LIMIT at_most
         ) AS m LIMIT at_most)
    )
    SELECT ARRAY[p.store_id, p.receiver_id, p.rank, p.id]::bigint[], l
    FROM page AS p
    JOIN stafette.message_list AS l ON l.state = 'ready' AND l.store_id = p.store_id
        AND l.receiver_id = p.receiver_id AND l.rank = p.rank AND l.id = p.id;
END
$$;
