-- Which broker has reads parked for which queue (0: for any), so that others know whom to ring after a send. It is only
-- a hint, behind which brokers poll slowly: it need not survive a crash, and is not logged.
CREATE UNLOGGED TABLE stafette.parked (
    queue_id  integer NOT NULL,
    broker_id integer NOT NULL REFERENCES stafette.brokers ON DELETE CASCADE,
    PRIMARY KEY (queue_id, broker_id)
);
CREATE INDEX parked_by_broker ON stafette.parked (broker_id);
