-- What a session has received, until it has seen the answer. If the answer was lost, the session asks again and gets the
-- same messages; if its call gave up, they go back to their lanes. A row is deleted when a later request of the session
-- names the answer as seen, and else after a while: handing it out then might be the second time.
--
-- There is nothing to do for existing rows: what was received before is gone.
CREATE TABLE stafette.received (
    LIKE stafette.ready,                   -- without its constraints: rows come from there, and each statement reads them
    client_id   integer     NOT NULL,
    session     bigint      NOT NULL,      -- the number that the client has drawn (see the table sessions)
    request     bigint      NOT NULL,      -- the id of the request on the wire
    received_at timestamptz NOT NULL,
    PRIMARY KEY (session, request, id)
);
ALTER TABLE stafette.received RENAME COLUMN store_id TO queue_id;      -- the queue's id, as of what is leased
CREATE INDEX received_by_time ON stafette.received (received_at);
ALTER TABLE stafette.received SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0);

-- The same for what is leased and created: the request that did it. Existing rows have none, so they are never an answer
-- to a repetition. (Only the rows of sessions are in the index.)
ALTER TABLE stafette.leased ADD COLUMN session bigint, ADD COLUMN request bigint;
CREATE INDEX leased_by_request ON stafette.leased (session, request) WHERE session IS NOT NULL;
ALTER TABLE stafette.queues ADD COLUMN created_session bigint, ADD COLUMN created_request bigint;
