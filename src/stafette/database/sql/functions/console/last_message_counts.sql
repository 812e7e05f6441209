-- The last count of all messages, with the present numbers of clients, brokers and queues. Before the first count, it
-- counts up to 10,000 messages of each state.
CREATE OR REPLACE FUNCTION stafette.last_message_counts() RETURNS TABLE (
    at timestamptz, seconds double precision, ready bigint, delayed bigint, leased bigint, dead bigint,
    oldest_at timestamptz, clients bigint, online bigint, brokers bigint, queues bigint
)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    last stafette.message_counts;
BEGIN
    SELECT * INTO last FROM stafette.message_counts;
    IF last.at IS NULL THEN
        last.at := now();
        last.seconds := 0;
        last.ready := (SELECT count(*) FROM (SELECT FROM stafette.message_list AS l WHERE l.state = 'ready' LIMIT 10000) AS m);
        last.delayed := (SELECT count(*) FROM (SELECT FROM stafette.message_list AS l WHERE l.state = 'delayed' LIMIT 10000) AS m);
        last.leased := (SELECT count(*) FROM (SELECT FROM stafette.message_list AS l WHERE l.state = 'leased' LIMIT 10000) AS m);
        last.dead := (SELECT count(*) FROM (SELECT FROM stafette.message_list AS l WHERE l.state = 'dead' LIMIT 10000) AS m);
    END IF;
    RETURN QUERY SELECT
        last.at, last.seconds, last.ready, last.delayed, last.leased, last.dead, last.oldest_at,
        (SELECT count(*) FROM stafette.clients AS c WHERE c.registered_at IS NOT NULL),
        (SELECT count(*) FROM stafette.client_list AS c WHERE c.broker IS NOT NULL),
        (SELECT count(*) FROM stafette.brokers AS b WHERE b.alive_until > now()),
        (SELECT count(*) FROM stafette.queues);
END
$$;
