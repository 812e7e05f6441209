-- The state of a message is the table it is in: ready, delayed, leased or dead. One INSERT into and one DELETE from
-- ready per message, never an UPDATE, because updates of what an index covers are what bloats a queue with age.
--
-- There are no foreign keys from messages: the check locks a row of queues and of clients for every send. Instead all
-- that writes messages holds the structure lock in share mode, and deleting a queue or client holds it alone
-- (functions/lock_catalog.sql).

CREATE SEQUENCE stafette.message_id;

-- A lane is the messages of one queue for one receiver (0: for anyone). The key keeps each lane in the order in which
-- it is read, all ascending, so that a pop is a short index scan without a sort. Hence rank = 10 - priority.
CREATE TABLE stafette.ready (
    id          bigint      NOT NULL,
    queue_id    integer     NOT NULL,
    receiver_id integer     NOT NULL,
    sender_id   integer     NOT NULL,
    rank        smallint    NOT NULL CHECK (rank BETWEEN 0 AND 9),
    deliveries  smallint    NOT NULL CHECK (deliveries >= 0),
    context     bigint,
    arrived_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    headers     jsonb       CHECK (jsonb_typeof(headers) = 'object'),
    body        bytea       NOT NULL,
    PRIMARY KEY (queue_id, receiver_id, rank, id)
);
CREATE INDEX ready_by_receiver ON stafette.ready (receiver_id, queue_id) WHERE receiver_id <> 0;
CREATE INDEX ready_by_sender   ON stafette.ready (sender_id, queue_id, receiver_id, rank, id);
CREATE INDEX ready_by_context  ON stafette.ready (context) WHERE context IS NOT NULL;
CREATE INDEX ready_by_expiry   ON stafette.ready (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE stafette.delayed (
    LIKE stafette.ready INCLUDING CONSTRAINTS,
    due_at timestamptz NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX delayed_by_due   ON stafette.delayed (due_at);
CREATE INDEX delayed_by_queue ON stafette.delayed (queue_id, id);

CREATE TABLE stafette.leased (
    LIKE stafette.ready INCLUDING CONSTRAINTS,
    token        bigint      NOT NULL,      -- the fence: an ack with another token came too late
    holder_id    integer     NOT NULL,
    leased_until timestamptz NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX leased_by_end   ON stafette.leased (leased_until);
CREATE SEQUENCE stafette.lease_token;

CREATE TABLE stafette.dead (
    LIKE stafette.ready INCLUDING CONSTRAINTS,
    died_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (queue_id, id)
);

-- What makes a repeated send answer with the first ids instead of sending twice.
CREATE TABLE stafette.keys (
    sender_id   integer     NOT NULL,
    key         text        NOT NULL CHECK (length(key) BETWEEN 1 AND 200),
    fingerprint text        NOT NULL,
    ids         bigint[]    NOT NULL,
    expires_at  timestamptz NOT NULL,
    PRIMARY KEY (sender_id, key)
);
CREATE INDEX keys_by_expiry ON stafette.keys (expires_at);

-- Churn: vacuum by the number of dead rows, not by a share of a table whose size says nothing, and without pauses.
ALTER TABLE stafette.ready   SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 10000);
ALTER TABLE stafette.leased  SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE stafette.delayed SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0);
ALTER TABLE stafette.brokers  SET (fillfactor = 50);
