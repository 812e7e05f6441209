-- What strangers must not be able to do. Any role that may connect to the database can NOTIFY on any channel and take any
-- advisory lock; what needs a right is to write to a table, or to lock it. So the commands of operators are rows, and
-- locks that everybody depends on are locks of tables (ADR 23).
--
-- There are no existing rows. A broker of the version before takes no commands until it has been restarted.

-- Commands to brokers; a notification only wakes the broker to read them (functions/brokers/take_commands.sql). One of a
-- kind is enough, which bounds their number by that of the sessions.
CREATE TABLE stafette.broker_commands (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    broker_id  integer     NOT NULL REFERENCES stafette.brokers ON DELETE CASCADE,
    command    text        NOT NULL CHECK (command IN ('drain', 'disconnect')),
    client_id  integer,
    token      bigint,                                   -- of the session to end, not of one that follows it
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((command = 'disconnect') = (client_id IS NOT NULL AND token IS NOT NULL)),
    UNIQUE NULLS NOT DISTINCT (broker_id, command, client_id, token)
);

-- Nothing is ever stored in these. Whoever writes messages, or changes the catalogue, locks the first
-- (functions/lock_catalog.sql).
CREATE TABLE stafette.catalog_lock ();

-- Whoever hands out messages for the sessions of a broker locks that of the broker's number, modulo 16
-- (functions/clients/hold_sessions.sql). Two brokers that share one only wait for each other's reads now and then.
DO $$
BEGIN
    FOR number IN 0..15 LOOP
        EXECUTE format('CREATE TABLE stafette.session_lock_%s ()', number);
    END LOOP;
END
$$;

-- Whoever counts all messages (functions/brokers/count_all_messages.sql).
CREATE TABLE stafette.count_lock ();
