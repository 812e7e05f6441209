-- What operators look at, and who they are. None of it is in the way of a message: brokers write it down now and then.

-- A queue without a creator was made by an operator, who is nobody's client.
ALTER TABLE stafette.queues ALTER COLUMN creator_id DROP NOT NULL;

CREATE OR REPLACE VIEW stafette.queue_list AS
    SELECT q.id, q.name, coalesce(c.name, 'operator') AS creator, q.created_at, o.name AS owner,
           (SELECT count(*) FROM stafette.ready AS m WHERE m.queue_id = q.id) AS messages,
           q.exclude_own, q.max_body, q.max_deliveries, d.name AS dead_letter
    FROM stafette.queues AS q
    LEFT JOIN stafette.clients AS c ON c.id = q.creator_id
    LEFT JOIN stafette.clients AS o ON o.id = q.owner_id
    LEFT JOIN stafette.queues AS d ON d.id = q.dead_letter_id;

-- The last count of everything (functions/brokers/count_all_messages.sql). There is no row before the first.
CREATE TABLE stafette.stock (
    one_row   boolean          PRIMARY KEY DEFAULT true CHECK (one_row),
    at        timestamptz      NOT NULL,
    seconds   double precision NOT NULL,          -- how long it took
    ready     bigint           NOT NULL,
    delayed   bigint           NOT NULL,
    leased    bigint           NOT NULL,
    dead      bigint           NOT NULL,
    oldest_at timestamptz
) WITH (fillfactor = 50);

-- The same by queue, for those that ever held something. No foreign key: a queue may go while it is being counted.
CREATE TABLE stafette.stock_of_queues (
    queue_id  integer PRIMARY KEY,
    ready     bigint  NOT NULL,
    delayed   bigint  NOT NULL,
    leased    bigint  NOT NULL,
    dead      bigint  NOT NULL,
    oldest_at timestamptz
) WITH (fillfactor = 50);

-- What happened over all brokers, in slots of 10 s for a day and in slots of 300 s for a month.
CREATE TABLE stafette.history (
    span             integer          NOT NULL CHECK (span IN (10, 300)),
    at               timestamptz      NOT NULL,
    sent             bigint           NOT NULL DEFAULT 0,
    received         bigint           NOT NULL DEFAULT 0,
    failed           bigint           NOT NULL DEFAULT 0,
    refused          bigint           NOT NULL DEFAULT 0,
    requests         bigint           NOT NULL DEFAULT 0,
    batches          bigint           NOT NULL DEFAULT 0,
    queue_seconds    double precision NOT NULL DEFAULT 0,
    database_seconds double precision NOT NULL DEFAULT 0,
    ready            bigint,
    delayed          bigint,
    leased           bigint,
    dead             bigint,
    online           bigint,
    PRIMARY KEY (span, at)
);

-- How long the longest queues were, each minute of a day.
CREATE TABLE stafette.queue_depths (
    queue_id integer     NOT NULL,
    at       timestamptz NOT NULL,
    messages bigint      NOT NULL,
    PRIMARY KEY (queue_id, at)
);
CREATE INDEX queue_depths_by_time ON stafette.queue_depths (at);

-- What each broker says about itself. It is said anew every few seconds, so it need not survive a crash.
CREATE UNLOGGED TABLE stafette.broker_figures (
    broker_id integer     PRIMARY KEY REFERENCES stafette.brokers ON DELETE CASCADE,
    at        timestamptz NOT NULL,
    figures   jsonb       NOT NULL
) WITH (fillfactor = 50);

-- Who may use the console: two roles, each with a secret of which only a salted hash is kept, as are sessions' tokens.
CREATE TABLE stafette.operators (
    role       text        PRIMARY KEY CHECK (role IN ('admin', 'viewer')),
    secret     text        NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE stafette.operator_sessions (
    token_hash bytea       PRIMARY KEY,
    role       text        NOT NULL CHECK (role IN ('admin', 'viewer')),
    ends_at    timestamptz NOT NULL
);

-- What operators did.
CREATE TABLE stafette.audit (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    role    text        NOT NULL,
    address text        NOT NULL,
    action  text        NOT NULL,
    subject text        NOT NULL,
    detail  text        NOT NULL
);

-- Every message in whichever state, and the same as people see it. A look names the state, which leaves one table.
CREATE VIEW stafette.every_message AS
    SELECT 'ready'::text AS state, m.id, m.queue_id, m.receiver_id, m.sender_id, m.rank, m.deliveries, m.context,
           m.arrived_at, m.expires_at, m.headers, m.body, NULL::timestamptz AS due_at,
           NULL::timestamptz AS leased_until, NULL::integer AS holder_id, NULL::timestamptz AS died_at
    FROM stafette.ready AS m
    UNION ALL
    SELECT 'delayed', m.id, m.queue_id, m.receiver_id, m.sender_id, m.rank, m.deliveries, m.context, m.arrived_at,
           m.expires_at, m.headers, m.body, m.due_at, NULL, NULL, NULL
    FROM stafette.delayed AS m
    UNION ALL
    SELECT 'leased', m.id, m.queue_id, m.receiver_id, m.sender_id, m.rank, m.deliveries, m.context, m.arrived_at,
           m.expires_at, m.headers, m.body, NULL, m.leased_until, m.holder_id, NULL
    FROM stafette.leased AS m
    UNION ALL
    SELECT 'dead', m.id, m.queue_id, m.receiver_id, m.sender_id, m.rank, m.deliveries, m.context, m.arrived_at,
           m.expires_at, m.headers, m.body, NULL, NULL, NULL, m.died_at
    FROM stafette.dead AS m;

CREATE VIEW stafette.message_list AS
    SELECT m.id, q.name AS queue, m.state, s.name AS sender, v.name AS receiver, m.context, 10 - m.rank AS priority,
           m.arrived_at, m.deliveries::integer AS deliveries, octet_length(m.body) AS size, m.headers, m.due_at,
           m.leased_until, h.name AS holder, m.died_at, m.expires_at, substring(m.body FROM 1 FOR 120) AS preview,
           m.queue_id, m.receiver_id, m.rank
    FROM stafette.every_message AS m
    JOIN stafette.queues AS q ON q.id = m.queue_id
    JOIN stafette.clients AS s ON s.id = m.sender_id
    LEFT JOIN stafette.clients AS v ON v.id = m.receiver_id
    LEFT JOIN stafette.clients AS h ON h.id = m.holder_id;
