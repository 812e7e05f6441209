-- The messages that a client would get next, in order, without locks. A message is visible if it is for anyone or for
-- this client; in a queue with exclude_own the client's own messages are not. Messages in a personal queue are always
-- addressed to its owner, so nobody else sees them.
--
-- Every branch reads lanes in index order, a few rows from each, and merges the heads. Arrival order within a lane is
-- a merge of its ten ranks: ten short probes cost less than one more index on every send.
--
-- Times to live end by the time of the statement: in an application's transaction, now() is when that began.
CREATE OR REPLACE FUNCTION stafette.peek_next(
    reader integer, in_store integer, from_sender integer, with_context bigint, by_arrival boolean, wanted integer,
    skipped bigint[] DEFAULT '{}'
) RETURNS TABLE (tid tid, id bigint)
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    own_hidden boolean := (SELECT q.exclude_own FROM stafette.queues AS q WHERE q.store_id = in_store);
BEGIN
    IF with_context IS NOT NULL THEN
        RETURN QUERY
        WITH RECURSIVE queue AS (          -- the queues that hold something of this context: a skip scan
            SELECT coalesce(in_store, (SELECT r.store_id FROM stafette.ready AS r
                                       WHERE r.context >= with_context AND r.context <= with_context
                                       ORDER BY r.context, r.store_id LIMIT 1)) AS id
            UNION ALL
            SELECT (SELECT r.store_id FROM stafette.ready AS r
                    WHERE r.context >= with_context AND r.context <= with_context
                      AND (r.context, r.store_id) > (with_context, queue.id)
                    ORDER BY r.context, r.store_id LIMIT 1)
            FROM queue WHERE in_store IS NULL AND queue.id IS NOT NULL
        )
        SELECT head.tid, head.id
        FROM queue
        JOIN stafette.queues AS q ON q.store_id = queue.id
        CROSS JOIN unnest(ARRAY[0, reader]) AS lane (receiver_id)
        CROSS JOIN generate_series(0, CASE WHEN by_arrival THEN 9 ELSE 0 END) AS step (rank)
        CROSS JOIN LATERAL (               -- row values as bounds: only the index by context fits, whatever the statistics
            SELECT r.ctid AS tid, r.rank, r.id FROM stafette.ready AS r
            WHERE r.context >= with_context AND r.context <= with_context
              AND (r.context, r.store_id, r.receiver_id, r.rank, r.id)
                  > (with_context, queue.id, lane.receiver_id, step.rank, 0)
              AND (r.context, r.store_id, r.receiver_id, r.rank, r.id)
                  < (with_context, queue.id, lane.receiver_id, CASE WHEN by_arrival THEN step.rank ELSE 9 END + 1, 0)
              AND (from_sender IS NULL OR r.sender_id = from_sender) AND NOT (q.exclude_own AND r.sender_id = reader)
              AND (r.expires_at IS NULL OR r.expires_at > statement_timestamp()) AND r.id <> ALL (skipped)
            ORDER BY r.context, r.store_id, r.receiver_id, r.rank, r.id LIMIT wanted
        ) AS head
        ORDER BY CASE WHEN by_arrival THEN 0 ELSE head.rank END, head.id
        LIMIT wanted;

    ELSIF from_sender IS NOT NULL THEN
        RETURN QUERY
        WITH RECURSIVE store AS (          -- the stores that hold something of this sender: a skip scan
            SELECT coalesce(in_store, (SELECT min(r.store_id) FROM stafette.ready AS r
                                       WHERE r.sender_id = from_sender)) AS id
            UNION ALL
            SELECT (SELECT min(r.store_id) FROM stafette.ready AS r
                    WHERE r.sender_id = from_sender AND r.store_id > store.id)
            FROM store WHERE in_store IS NULL AND store.id IS NOT NULL
        )
        SELECT head.tid, head.id
        FROM store
        JOIN stafette.queues AS q ON q.store_id = store.id AND NOT (q.exclude_own AND from_sender = reader)
        CROSS JOIN unnest(ARRAY[0, reader]) AS lane (receiver_id)
        CROSS JOIN generate_series(0, 9) AS step (rank)
        CROSS JOIN LATERAL (
            SELECT r.ctid AS tid, r.id FROM stafette.ready AS r
            WHERE r.sender_id = from_sender AND r.store_id = store.id AND r.receiver_id = lane.receiver_id
              AND r.rank = step.rank
              AND (r.expires_at IS NULL OR r.expires_at > statement_timestamp()) AND r.id <> ALL (skipped)
            ORDER BY r.id LIMIT wanted
        ) AS head
        ORDER BY CASE WHEN by_arrival THEN 0 ELSE step.rank END, head.id
        LIMIT wanted;

    ELSIF by_arrival THEN
        RETURN QUERY
        SELECT head.tid, head.id
        FROM unnest(ARRAY[0, reader]) AS lane (receiver_id)
        CROSS JOIN generate_series(0, 9) AS step (rank)
        CROSS JOIN LATERAL (
            SELECT r.ctid AS tid, r.id FROM stafette.ready AS r
            WHERE r.store_id = in_store AND r.receiver_id = lane.receiver_id AND r.rank = step.rank
              AND NOT (own_hidden AND r.sender_id = reader)
              AND (r.expires_at IS NULL OR r.expires_at > statement_timestamp()) AND r.id <> ALL (skipped)
            ORDER BY r.id LIMIT wanted
        ) AS head
        ORDER BY head.id
        LIMIT wanted;

    ELSE
        RETURN QUERY
        SELECT head.tid, head.id
        FROM unnest(ARRAY[0, reader]) AS lane (receiver_id)
        CROSS JOIN LATERAL (
            SELECT r.ctid AS tid, r.rank, r.id FROM stafette.ready AS r
            WHERE r.store_id = in_store AND r.receiver_id = lane.receiver_id
              AND NOT (own_hidden AND r.sender_id = reader)
              AND (r.expires_at IS NULL OR r.expires_at > statement_timestamp()) AND r.id <> ALL (skipped)
            ORDER BY r.rank, r.id LIMIT wanted
        ) AS head
        ORDER BY head.rank, head.id
        LIMIT wanted;
    END IF;
END
$$;
