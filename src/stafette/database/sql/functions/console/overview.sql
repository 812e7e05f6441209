-- The whole system in one row.
CREATE OR REPLACE FUNCTION stafette.overview() RETURNS TABLE (
    clients bigint, online bigint, brokers bigint, queues bigint, ready bigint, delayed bigint, leased bigint,
    dead bigint
)
LANGUAGE sql STABLE AS $$
    SELECT
        (SELECT count(*) FROM stafette.clients AS c WHERE c.registered_at IS NOT NULL),
        (SELECT count(*) FROM stafette.client_list AS c WHERE c.broker IS NOT NULL),
        (SELECT count(*) FROM stafette.brokers AS b WHERE b.alive_until > now()),
        (SELECT count(*) FROM stafette.queues),
        (SELECT coalesce(sum(l.messages), 0)::bigint FROM stafette.queue_lengths() AS l),
        (SELECT count(*) FROM stafette.delayed AS m JOIN stafette.queues AS q ON q.store_id = m.store_id
         WHERE m.receiver_id NOT IN (SELECT stafette.discarded_receivers('delayed'))),
        (SELECT count(*) FROM stafette.leased AS m WHERE stafette.is_held(m.queue_id, m.receiver_id)),
        (SELECT count(*) FROM stafette.dead AS m JOIN stafette.queues AS q ON q.id = m.queue_id
         WHERE m.receiver_id NOT IN (SELECT stafette.discarded_receivers('dead')))
$$;
