-- Makes asks from arrays: turns names into ids, finds faults, and marks those that are plain (see the type stafette.ask) if
-- nothing in the queue is addressed to the client, which take_batch() looks up. Asks for many messages that may be too many
-- bytes are not plain, nor are those of clients that take less than the budget.
-- An ask with the token of a session that has moved or ended is a fault; without tokens (NULL) there is none to check.
CREATE OR REPLACE FUNCTION stafette.resolve_asks(
    clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[],
    max_bytes bigint[], budget bigint, removing boolean, tokens bigint[] DEFAULT NULL
) RETURNS stafette.ask[]
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN (
    SELECT array_agg((
        a.place, a.client, q.store_id, s.id, a.context, a.by_arrival, a.wanted,
        a.sender IS NULL AND a.context IS NULL AND NOT a.by_arrival AND NOT q.exclude_own
            AND (a.wanted = 1 OR a.wanted * (q.max_body + 100::bigint) <= budget)
            AND coalesce(a.max_bytes >= budget + 2500::bigint * a.wanted, true),
        CASE
            WHEN c.id IS NULL THEN 105
            WHEN a.token IS NOT NULL AND a.token IS DISTINCT FROM n.token THEN 108
            WHEN removing AND c.mode <> 'full' THEN 107
            WHEN a.queue IS NOT NULL AND q.id IS NULL THEN 102
            WHEN q.owner_id <> a.client THEN 107
            WHEN a.sender IS NOT NULL AND s.id IS NULL THEN 105
            WHEN a.queue IS NULL AND a.sender IS NULL AND a.context IS NULL THEN 100
            WHEN a.wanted < 1 THEN 100
        END,
        CASE
            WHEN c.id IS NULL THEN 'the reading client is not registered (any more); connect again'
            WHEN a.token IS NOT NULL AND a.token IS DISTINCT FROM n.token
                THEN 'this session has ended, or continues elsewhere; connect again'
            WHEN removing AND c.mode <> 'full' THEN format('client %s is read-only and cannot change anything', c.name)
            WHEN a.queue IS NOT NULL AND q.id IS NULL THEN format('there is no queue %s; create it first', a.queue)
            WHEN q.owner_id <> a.client THEN format('queue %s is personal; only its owner may read it', a.queue)
            WHEN a.sender IS NOT NULL AND s.id IS NULL THEN format('there is no client %s', a.sender)
            WHEN a.queue IS NULL AND a.sender IS NULL AND a.context IS NULL
                THEN 'the request names nothing to read; give a queue, a sender or a context'
            WHEN a.wanted < 1 THEN format('cannot read %s messages; ask for at least one', a.wanted)
        END,
        coalesce(a.max_bytes, 9223372036854775807)
    )::stafette.ask ORDER BY a.place)
    FROM unnest(clients, queues, senders, contexts, by_arrival, wanted, max_bytes, tokens)
         WITH ORDINALITY AS a (client, queue, sender, context, by_arrival, wanted, max_bytes, token, place)
    LEFT JOIN LATERAL (SELECT * FROM stafette.clients AS c
                       WHERE c.id = a.client AND c.registered_at IS NOT NULL LIMIT 1) AS c ON true
    LEFT JOIN LATERAL (SELECT * FROM stafette.sessions AS n
                       WHERE n.client_id = a.client AND n.broker_id IS NOT NULL LIMIT 1) AS n ON true
    LEFT JOIN LATERAL (SELECT * FROM stafette.queues AS q WHERE q.name = a.queue LIMIT 1) AS q ON true
    LEFT JOIN LATERAL (SELECT * FROM stafette.clients AS c
                       WHERE c.name = a.sender AND c.deleted_at IS NULL
                         AND c.registered_at IS NOT NULL LIMIT 1) AS s ON true
    );
END
$$;
