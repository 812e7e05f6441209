-- Whether a queue holds no message in any state, apart from what is addressed to deleted clients. The lanes of ready
-- messages are found by a skip scan: however much of that there is, it costs a probe for each lane.
CREATE OR REPLACE FUNCTION stafette.is_empty(target stafette.queues) RETURNS boolean
LANGUAGE sql STABLE
SET enable_seqscan = off
AS $$
    WITH RECURSIVE lane AS (
        SELECT (SELECT min(r.receiver_id) FROM stafette.ready AS r WHERE r.store_id = target.store_id) AS receiver_id
        UNION ALL
        SELECT (SELECT min(r.receiver_id) FROM stafette.ready AS r
                WHERE r.store_id = target.store_id AND r.receiver_id > lane.receiver_id)
        FROM lane WHERE lane.receiver_id IS NOT NULL
    )
    SELECT NOT EXISTS (SELECT FROM lane WHERE lane.receiver_id IS NOT NULL
                       AND lane.receiver_id NOT IN (SELECT stafette.discarded_receivers('ready')))
       AND NOT EXISTS (SELECT FROM stafette.delayed AS m WHERE m.store_id = target.store_id
                       AND m.receiver_id NOT IN (SELECT stafette.discarded_receivers('delayed')))
       AND NOT EXISTS (SELECT FROM stafette.dead AS m WHERE m.queue_id = target.id
                       AND m.receiver_id NOT IN (SELECT stafette.discarded_receivers('dead')))
       AND NOT EXISTS (SELECT FROM stafette.leased AS m WHERE m.queue_id = target.id
                       AND stafette.is_held(m.queue_id, m.receiver_id))
$$;
