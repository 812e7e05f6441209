-- Sends many messages for many clients in one statement. The arrays run in parallel, one element per message and
-- queue; elements with the same request number belong together: all of them are stored, or none, with the request's
-- first fault as its answer. Answers come in the order of the elements.
--
-- A key makes a send safe to repeat: the first use stores the ids, a later one returns them, even if the message could
-- not be sent any more. A key whose time is over counts as new. A key that counts is locked, so that forget_keys()
-- leaves it until its ids have been returned.
CREATE OR REPLACE FUNCTION stafette.send_batch(
    requests integer[], senders integer[], queues text[], receivers text[], priorities smallint[], contexts bigint[],
    headers jsonb[], bodies bytea[], delays double precision[], ttls double precision[], keys text[],
    allow_unknown boolean[]
) RETURNS TABLE (request integer, id bigint, fault integer, detail text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
    most_seconds CONSTANT double precision := 1e9;     -- as on the wire; NaN is more than that
    sent_at      CONSTANT timestamptz := statement_timestamp();    -- now() is when an application's transaction began
    answers      stafette.answered_part[];
BEGIN
    PERFORM stafette.lock_catalog();

    IF true = ANY (allow_unknown) THEN
        INSERT INTO stafette.clients (name)
        SELECT DISTINCT p.receiver FROM unnest(receivers, allow_unknown) AS p (receiver, allowed)
        WHERE p.allowed AND p.receiver ~ '^[^[:cntrl:]]{1,200}$' ORDER BY p.receiver
        ON CONFLICT DO NOTHING;
    END IF;

    WITH part AS MATERIALIZED (
        SELECT
            p.*, q.store_id, coalesce(q.owner_id, r.id, 0) AS receiver_id,
            CASE
                WHEN s.id IS NULL THEN 105
                WHEN s.mode <> 'full' THEN 107
                WHEN q.id IS NULL THEN 102
                WHEN p.receiver IS NOT NULL AND (r.id IS NULL OR r.registered_at IS NULL AND NOT p.allowed) THEN 105
                WHEN q.owner_id <> r.id THEN 107
                WHEN q.exclude_own AND r.id = p.sender THEN 100
                WHEN octet_length(p.body) > q.max_body OR pg_column_size(p.headers) > 1048576 THEN 101
                WHEN p.priority NOT BETWEEN 1 AND 10 OR p.delay < 0 OR p.delay > most_seconds
                    OR p.ttl <= 0 OR p.ttl > most_seconds THEN 100
                WHEN jsonb_typeof(p.headers) <> 'object' OR NOT stafette.is_readable(p.headers, now()) THEN 100
                WHEN p.key IS NOT NULL AND length(p.key) NOT BETWEEN 1 AND 200 THEN 100
            END AS fault,
            s.name AS sender_name, q.max_body
        FROM (
            SELECT *, nextval('stafette.message_id') AS id
            FROM unnest(requests, senders, queues, receivers, priorities, contexts, headers, bodies, delays, ttls, keys,
                        allow_unknown)
                 WITH ORDINALITY AS u (request, sender, queue, receiver, priority, context, headers, body, delay, ttl,
                                       key, allowed, place)
        ) AS p
        LEFT JOIN LATERAL (SELECT * FROM stafette.queues AS q WHERE q.name = p.queue LIMIT 1) AS q ON true
        LEFT JOIN LATERAL (SELECT * FROM stafette.clients AS c
                           WHERE c.name = p.receiver AND c.deleted_at IS NULL LIMIT 1) AS r ON true
        LEFT JOIN LATERAL (SELECT * FROM stafette.clients AS c
                           WHERE c.id = p.sender AND c.registered_at IS NOT NULL LIMIT 1) AS s ON true
    ), bad AS MATERIALIZED (
        SELECT DISTINCT ON (request) * FROM part WHERE fault IS NOT NULL ORDER BY request, place
    ), keyed AS MATERIALIZED (
        SELECT
            request, sender, key, array_agg(id ORDER BY place) AS ids,
            md5(string_agg(format('%L %L %s %s %s %s %s %s', queue, receiver, priority, context, headers, delay, ttl,
                                  md5(body)), '|' ORDER BY place)) AS fingerprint
        FROM part
        WHERE key IS NOT NULL
        GROUP BY request, sender, key
    ), claimed AS (
        INSERT INTO stafette.keys AS k (sender_id, key, fingerprint, ids, expires_at)
        SELECT DISTINCT ON (sender, key) sender, key, fingerprint, ids, now() + stafette.key_lifetime()
        FROM keyed WHERE request NOT IN (SELECT request FROM bad) ORDER BY sender, key, request
        ON CONFLICT (sender_id, key) DO UPDATE
            SET fingerprint = excluded.fingerprint, ids = excluded.ids, expires_at = excluded.expires_at
            WHERE k.expires_at <= now()
        RETURNING k.ids
    ), good AS MATERIALIZED (
        SELECT * FROM part
        WHERE request NOT IN (SELECT request FROM bad)
          AND (key IS NULL OR id IN (SELECT unnest(ids) FROM claimed))
    ), now_ready AS (
        INSERT INTO stafette.ready
            (id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body)
        SELECT id, store_id, receiver_id, sender, 10 - priority, 0, context, sent_at,
               sent_at + ttl * interval '1 second', headers, body
        FROM good WHERE delay IS NULL OR delay = 0
    ), now_delayed AS (
        INSERT INTO stafette.delayed
            (id, store_id, receiver_id, sender_id, rank, deliveries, context, arrived_at, expires_at, headers, body,
             due_at)
        SELECT id, store_id, receiver_id, sender, 10 - priority, 0, context, sent_at,
               sent_at + ttl * interval '1 second', headers, body, sent_at + delay * interval '1 second'
        FROM good WHERE delay > 0
    )
    SELECT array_agg((
        p.place, p.request, p.id, b.fault,
        CASE b.fault
            WHEN 100 THEN CASE
                WHEN b.priority NOT BETWEEN 1 AND 10 THEN format('priority %s is not between 1 and 10', b.priority)
                WHEN b.delay < 0 THEN format('delay %s is negative; it is a number of seconds', b.delay)
                WHEN b.ttl <= 0 THEN format('ttl %s is not positive; it is a number of seconds', b.ttl)
                WHEN b.delay > most_seconds THEN format('delay %s is more than 1000000000 seconds', b.delay)
                WHEN b.ttl > most_seconds THEN format('ttl %s is more than 1000000000 seconds', b.ttl)
                WHEN jsonb_typeof(b.headers) <> 'object' THEN 'headers are a JSON object of texts'
                WHEN NOT stafette.is_readable(b.headers, now()) THEN (
                    SELECT format('header %s is not a text; write its value as a string', h.key)
                    FROM jsonb_each(b.headers) AS h WHERE jsonb_typeof(h.value) <> 'string' LIMIT 1)
                WHEN length(b.key) NOT BETWEEN 1 AND 200 THEN 'a key has 1 to 200 characters'
                ELSE format('queue %s excludes messages to oneself; name another receiver', b.queue) END
            WHEN 101 THEN CASE
                WHEN octet_length(b.body) > b.max_body
                    THEN format('the body has %s bytes; queue %s takes at most %s', octet_length(b.body), b.queue,
                                b.max_body)
                ELSE format('the headers have %s bytes; a message takes at most 1048576', pg_column_size(b.headers)) END
            WHEN 102 THEN format('there is no queue %s; create it first', b.queue)
            WHEN 105 THEN CASE
                WHEN b.sender_name IS NULL THEN 'the sending client is not registered (any more); connect again'
                ELSE format('there is no client %s; let it register, or allow an unknown receiver', b.receiver) END
            WHEN 107 THEN CASE
                WHEN b.store_id IS NOT NULL AND b.receiver IS NOT NULL AND b.queue LIKE '@%'
                    THEN format('%s is a personal queue; its only receiver is its owner', b.queue)
                ELSE format('client %s is read-only and cannot send', b.sender_name) END
        END,
        CASE WHEN p.sender_name IS NOT NULL THEN p.sender END, p.key, k.fingerprint, p.id IN (SELECT id FROM good)
    )::stafette.answered_part ORDER BY p.place)
    INTO answers
    FROM part AS p
    LEFT JOIN bad AS b ON b.request = p.request
    LEFT JOIN keyed AS k ON k.request = p.request;

    -- A separate statement, so that it sees a key that another transaction has committed meanwhile. A send with a fault
    -- may be the repetition of one that had none, if its queue or receiver is gone since.
    RETURN QUERY
    SELECT
        a.request,
        CASE WHEN a.stored THEN a.id WHEN k.fingerprint = a.fingerprint THEN k.ids[a.part] END,
        CASE WHEN k.fingerprint <> a.fingerprint THEN 110 WHEN k.fingerprint IS NULL THEN a.fault END,
        CASE WHEN k.fingerprint <> a.fingerprint THEN format('key %s was used for another message; choose a new key', a.key)
             WHEN k.fingerprint IS NULL THEN a.detail END
    FROM (SELECT *, row_number() OVER (PARTITION BY u.request ORDER BY u.place) AS part
          FROM unnest(answers) AS u) AS a
    LEFT JOIN stafette.keys AS k
        ON NOT a.stored AND k.sender_id = a.sender_id AND k.key = a.key
           AND (a.fault IS NULL OR k.fingerprint = a.fingerprint AND k.expires_at > now() AND k.ids[1] < a.id)
    ORDER BY a.place;
END
$$;
