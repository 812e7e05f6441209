-- The rows that functions take and give, and the lists that people see.

-- One request to read: who, where, from whom, in which order, how many. Plain: the messages for anyone, by priority,
-- are all there is to choose from. A fault is a wire code (errors.py) with its sentence.
CREATE TYPE stafette.ask AS (
    place integer, me integer, queue_id integer, sender_id integer, context bigint, by_arrival boolean,
    wanted integer, plain boolean, fault integer, detail text
);

-- What reading returns, one row per message or fault; place is the number of the ask in its batch, from 1.
CREATE TYPE stafette.answer AS (
    place integer, fault integer, detail text, id bigint, queue text, sender text, receiver text, context bigint,
    priority integer, arrived_at timestamptz, deliveries integer, headers jsonb, body bytea, token bigint
);

-- One message of a send, on its way through send_batch().
CREATE TYPE stafette.answered_part AS (
    place bigint, request integer, id bigint, fault integer, detail text,
    sender_id integer, key text, fingerprint text, stored boolean
);

CREATE VIEW stafette.client_list AS
    SELECT c.id, c.name, c.mode, c.registered_at, c.last_seen_at, b.name AS broker   -- where it is online
    FROM stafette.clients AS c
    LEFT JOIN stafette.sessions AS s ON s.client_id = c.id
    LEFT JOIN stafette.brokers AS b ON b.id = s.broker_id AND b.alive_until > now()
    WHERE c.registered_at IS NOT NULL;

CREATE VIEW stafette.queue_list AS
    SELECT q.id, q.name, c.name AS creator, q.created_at, o.name AS owner,
           (SELECT count(*) FROM stafette.ready AS m WHERE m.queue_id = q.id) AS messages,
           q.exclude_own, q.max_body, q.max_deliveries, d.name AS dead_letter
    FROM stafette.queues AS q
    JOIN stafette.clients AS c ON c.id = q.creator_id
    LEFT JOIN stafette.clients AS o ON o.id = q.owner_id
    LEFT JOIN stafette.queues AS d ON d.id = q.dead_letter_id;
