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
        (SELECT count(*) FROM stafette.ready),
        (SELECT count(*) FROM stafette.delayed),
        (SELECT count(*) FROM stafette.leased),
        (SELECT count(*) FROM stafette.dead)
$$;
