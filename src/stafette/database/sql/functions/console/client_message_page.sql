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
    WITH RECURSIVE waits_in AS (
        (SELECT r.queue_id FROM stafette.ready AS r
         WHERE r.receiver_id = target_id AND r.receiver_id <> 0 AND r.queue_id >= after[1] AND which = 'waiting'
         ORDER BY r.receiver_id, r.queue_id LIMIT 1)
        UNION ALL
        SELECT further.queue_id FROM waits_in AS t CROSS JOIN LATERAL (
            SELECT r.queue_id FROM stafette.ready AS r
            WHERE r.receiver_id = target_id AND r.receiver_id <> 0 AND r.queue_id > t.queue_id
            ORDER BY r.receiver_id, r.queue_id LIMIT 1
        ) AS further
    ), page AS MATERIALIZED (
        (SELECT r.queue_id, r.receiver_id, r.rank, r.id FROM stafette.ready AS r
         WHERE which = 'sent'
           AND (r.sender_id, r.queue_id, r.receiver_id, r.rank, r.id)
               > (target_id, after[1], after[2], after[3], after[4])
           AND r.sender_id <= target_id
         ORDER BY r.sender_id, r.queue_id, r.receiver_id, r.rank, r.id LIMIT at_most)
        UNION ALL
        (SELECT m.queue_id, m.receiver_id, m.rank, m.id FROM waits_in AS t CROSS JOIN LATERAL (
            SELECT r.queue_id, r.receiver_id, r.rank, r.id FROM stafette.ready AS r
            WHERE (r.queue_id, r.receiver_id, r.rank, r.id) > (t.queue_id, target_id, CASE WHEN t.queue_id = after[1]
                       THEN after[3] ELSE 0 END, CASE WHEN t.queue_id = after[1] THEN after[4] ELSE 0 END)
              AND (r.queue_id, r.receiver_id) <= (t.queue_id, target_id)
            ORDER BY r.queue_id, r.receiver_id, r.rank, r.id LIMIT at_most
         ) AS m LIMIT at_most)
    )
    SELECT ARRAY[p.queue_id, p.receiver_id, p.rank, p.id]::bigint[], l
    FROM page AS p
    JOIN stafette.message_list AS l ON l.state = 'ready' AND l.queue_id = p.queue_id
        AND l.receiver_id = p.receiver_id AND l.rank = p.rank AND l.id = p.id;
END
$$;
