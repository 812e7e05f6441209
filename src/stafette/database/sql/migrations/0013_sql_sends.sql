-- What applications have sent in SQL in transactions that are still open: a row for each transaction and queue. It is
-- there for its trigger, which runs when the transaction commits: the brokers with reads for that queue are notified then,
-- also those whose reads began to wait after the send. The row is deleted in the same transaction, so none is ever seen.
--
-- There are no existing rows to care for.
CREATE UNLOGGED TABLE stafette.sql_sends (
    transaction xid8 NOT NULL,
    queue       text NOT NULL,
    PRIMARY KEY (transaction, queue)
);
ALTER TABLE stafette.sql_sends SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0);

-- The trigger's function; the newest is in functions/brokers/notify_readers.sql.
CREATE FUNCTION stafette.notify_readers() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';

CREATE CONSTRAINT TRIGGER notify_readers AFTER INSERT ON stafette.sql_sends
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stafette.notify_readers();
