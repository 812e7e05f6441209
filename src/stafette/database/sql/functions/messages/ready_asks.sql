-- The numbers, from 1, of the asks (reads that wait) for which something may be ready: a few probes of an index for
-- each. A message past its time to live counts, and one that the client excludes; then the read finds nothing. An ask
-- whose queue or sender is gone is due, too: the read has to learn that.
CREATE OR REPLACE FUNCTION stafette.ready_asks(
    clients integer[], queues text[], senders text[], contexts bigint[]
) RETURNS SETOF bigint
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
    -- Each probe has a limit of its own: EXISTS might be answered from a hash of the whole table.
    RETURN QUERY
    SELECT a.number
    FROM unnest(clients, queues, senders, contexts) WITH ORDINALITY AS a (client, queue, sender, context, number)
    LEFT JOIN LATERAL (SELECT q.store_id AS id FROM stafette.queues AS q WHERE q.name = a.queue LIMIT 1) AS q ON true
    LEFT JOIN LATERAL (SELECT c.id FROM stafette.clients AS c
                       WHERE c.name = a.sender AND c.registered_at IS NOT NULL LIMIT 1) AS s ON true
    LEFT JOIN LATERAL (SELECT r.id FROM stafette.ready AS r
                       WHERE r.store_id = q.id AND r.receiver_id = 0 LIMIT 1) AS for_anyone ON true
    LEFT JOIN LATERAL (SELECT r.id FROM stafette.ready AS r
                       WHERE r.store_id = q.id AND r.receiver_id = a.client LIMIT 1) AS for_client ON true
    LEFT JOIN LATERAL (SELECT r.id FROM stafette.ready AS r
                       WHERE r.sender_id = s.id
                         AND r.store_id BETWEEN coalesce(q.id, 0) AND coalesce(q.id, 2147483647)
                       LIMIT 1) AS from_sender ON true
    LEFT JOIN LATERAL (SELECT r.id FROM stafette.ready AS r
                       WHERE r.context = a.context LIMIT 1) AS with_context ON true
    WHERE a.queue IS NOT NULL AND q.id IS NULL
       OR a.sender IS NOT NULL AND s.id IS NULL
       OR (a.queue IS NULL OR for_anyone.id IS NOT NULL OR for_client.id IS NOT NULL)
          AND (a.sender IS NULL OR from_sender.id IS NOT NULL)
          AND (a.context IS NULL OR with_context.id IS NOT NULL);
END
$$;
