-- The number of messages of a queue in each state.
CREATE OR REPLACE FUNCTION stafette.count_messages(queue text)
RETURNS TABLE (ready bigint, delayed bigint, leased bigint, dead bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    target stafette.queues := stafette.get_queue(queue);
BEGIN
    RETURN QUERY SELECT
        stafette.count_ready(target.id),
        (SELECT count(*) FROM stafette.delayed AS m WHERE m.store_id = target.store_id
         AND m.receiver_id NOT IN (SELECT stafette.discarded_receivers('delayed'))),
        (SELECT count(*) FROM stafette.leased AS m WHERE m.queue_id = target.id
         AND stafette.is_held(m.queue_id, m.receiver_id)),
        (SELECT count(*) FROM stafette.dead AS m WHERE m.queue_id = target.id
         AND m.receiver_id NOT IN (SELECT stafette.discarded_receivers('dead')));
END
$$;
