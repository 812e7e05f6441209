-- The number of ready messages of a queue; those addressed to deleted clients are not counted.
CREATE OR REPLACE FUNCTION stafette.count_ready(queue_id integer) RETURNS bigint
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
BEGIN
    RETURN (SELECT count(*) FROM stafette.ready AS m
            WHERE m.store_id = (SELECT q.store_id FROM stafette.queues AS q WHERE q.id = count_ready.queue_id)
              AND m.receiver_id NOT IN (SELECT stafette.discarded_receivers('ready')));
END
$$;
