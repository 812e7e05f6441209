-- Deleting and purging hide messages at once and leave their rows to upkeep (ADR 16).
--
-- The ready and delayed messages of a queue are in its *store*. A purge gives the queue another store; the id of the
-- queue stays. Ids of queues and stores are drawn from one sequence, so that one never passes for the other.
--
-- Existing rows: the store of an existing queue has the queue's id, so no message has to be changed. Clients that were
-- deleted before are names only, as if somebody had addressed them; who registers under such a name gets its id.
ALTER TABLE stafette.queues ADD COLUMN store_id integer UNIQUE;
UPDATE stafette.queues SET store_id = id;
ALTER TABLE stafette.queues
    ALTER COLUMN store_id SET NOT NULL,
    ALTER COLUMN store_id SET DEFAULT nextval('stafette.queues_id_seq');

DROP VIEW stafette.message_list;
DROP VIEW stafette.every_message;
ALTER TABLE stafette.ready RENAME COLUMN queue_id TO store_id;
ALTER TABLE stafette.delayed RENAME COLUMN queue_id TO store_id;
ALTER INDEX stafette.delayed_by_queue RENAME TO delayed_by_store;
ALTER TYPE stafette.ask RENAME ATTRIBUTE queue_id TO store_id;

-- A deleted client keeps its row, which is the name of the sender of what it sent. Who registers under that name is
-- another client.
ALTER TABLE stafette.clients
    ADD COLUMN deleted_at timestamptz,
    ADD CHECK (deleted_at IS NULL OR registered_at IS NULL),
    DROP CONSTRAINT clients_name_key;
CREATE UNIQUE INDEX clients_by_name ON stafette.clients (name, deleted_at) NULLS NOT DISTINCT;

-- What upkeep still has to delete (functions/messages/delete_discarded.sql), by the state of the messages: those of a
-- queue (by its store if they are ready or delayed), or those that are addressed to a client. Leased messages are not
-- listed: they are deleted when their lease runs out. `reached` is where upkeep goes on, so that no step passes over
-- what the steps before it have deleted.
CREATE TABLE stafette.discarded (
    state   text        NOT NULL CHECK (state IN ('ready', 'delayed', 'dead')),
    owner   text        NOT NULL CHECK (owner IN ('queue', 'receiver')),
    id      integer     NOT NULL,
    at      timestamptz NOT NULL DEFAULT now(),
    reached bigint[],
    PRIMARY KEY (state, owner, id)
);
CREATE INDEX delayed_by_receiver ON stafette.delayed (receiver_id, id) WHERE receiver_id <> 0;
CREATE INDEX dead_by_receiver    ON stafette.dead (receiver_id, id) WHERE receiver_id <> 0;

CREATE OR REPLACE VIEW stafette.client_list AS
    SELECT c.id, c.name, c.mode, c.registered_at, c.last_seen_at, b.name AS broker
    FROM stafette.clients AS c
    LEFT JOIN stafette.sessions AS s ON s.client_id = c.id
    LEFT JOIN stafette.brokers AS b ON b.id = s.broker_id AND b.alive_until > now()
    WHERE c.registered_at IS NOT NULL AND c.deleted_at IS NULL;

-- Every message in whichever state. A look names the state, which leaves one table. store_id is what begins the key of
-- that table: the queue's store, or for leased and dead messages the queue. queue_id is NULL for what is discarded.
CREATE VIEW stafette.every_message AS
    SELECT 'ready'::text AS state, m.id, m.store_id,
           (SELECT q.id FROM stafette.queues AS q WHERE q.store_id = m.store_id) AS queue_id,
           m.receiver_id, m.sender_id, m.rank, m.deliveries, m.context, m.arrived_at, m.expires_at, m.headers, m.body,
           NULL::timestamptz AS due_at, NULL::timestamptz AS leased_until, NULL::integer AS holder_id,
           NULL::timestamptz AS died_at
    FROM stafette.ready AS m
    UNION ALL
    SELECT 'delayed', m.id, m.store_id, (SELECT q.id FROM stafette.queues AS q WHERE q.store_id = m.store_id),
           m.receiver_id, m.sender_id, m.rank, m.deliveries, m.context, m.arrived_at, m.expires_at, m.headers, m.body,
           m.due_at, NULL, NULL, NULL
    FROM stafette.delayed AS m
    UNION ALL
    SELECT 'leased', m.id, m.queue_id, m.queue_id, m.receiver_id, m.sender_id, m.rank, m.deliveries, m.context,
           m.arrived_at, m.expires_at, m.headers, m.body, NULL, m.leased_until, m.holder_id, NULL
    FROM stafette.leased AS m
    UNION ALL
    SELECT 'dead', m.id, m.queue_id, m.queue_id, m.receiver_id, m.sender_id, m.rank, m.deliveries, m.context,
           m.arrived_at, m.expires_at, m.headers, m.body, NULL, NULL, NULL, m.died_at
    FROM stafette.dead AS m;

-- The same as people see it, without what is discarded.
CREATE VIEW stafette.message_list AS
    SELECT m.id, q.name AS queue, m.state, s.name AS sender, v.name AS receiver, m.context, 10 - m.rank AS priority,
           m.arrived_at, m.deliveries::integer AS deliveries, octet_length(m.body) AS size, m.headers, m.due_at,
           m.leased_until, h.name AS holder, m.died_at, m.expires_at, substring(m.body FROM 1 FOR 120) AS preview,
           m.store_id, m.receiver_id, m.rank
    FROM stafette.every_message AS m
    JOIN stafette.queues AS q ON q.id = m.queue_id
    JOIN stafette.clients AS s ON s.id = m.sender_id
    LEFT JOIN stafette.clients AS v ON v.id = m.receiver_id
    LEFT JOIN stafette.clients AS h ON h.id = m.holder_id
    WHERE v.deleted_at IS NULL;
