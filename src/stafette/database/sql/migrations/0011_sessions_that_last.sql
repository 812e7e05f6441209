-- A session outlives its connection and its broker for a while: who shows its number continues it, and need not prove
-- its secret again (stafette.session_proves). `broker_id` is where it is live, NULL since `ended_at` where it is not.
-- `last_broker_id` stays: that broker may still have a read of the old connection in the database (fence_sessions).
-- Of the number only a hash is stored, so that nobody can continue a session with what a dump contains.
--
-- Existing rows have no number, and nobody can show one. They go on as they are, live at their broker.
ALTER TABLE stafette.sessions
    ALTER COLUMN broker_id DROP NOT NULL,
    ALTER COLUMN session TYPE bytea USING sha256(int8send(session)),
    ADD COLUMN last_broker_id integer,
    ADD COLUMN ended_at timestamptz,
    ADD COLUMN proves_secret boolean NOT NULL DEFAULT true;   -- false: its number alone does not do (any more)
UPDATE stafette.sessions SET last_broker_id = broker_id;
ALTER TABLE stafette.sessions
    ALTER COLUMN last_broker_id SET NOT NULL,
    ADD CONSTRAINT sessions_live_or_ended CHECK ((broker_id IS NULL) = (ended_at IS NOT NULL));
CREATE INDEX sessions_by_end ON stafette.sessions (ended_at) WHERE ended_at IS NOT NULL;
