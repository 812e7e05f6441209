-- Waits until no read is under way at the brokers from which these clients would take their session over, and keeps new
-- ones from starting until the transaction ends. Every batch that hands out messages holds the shared lock of its broker
-- until its commit and serves only sessions that are in stafette.sessions. So when a take-over is committed, each read
-- of the old connection is either committed, or will be refused. It is one lock per broker and batch, not per client.
--
-- Returns the brokers that are fenced. One that is missing has had a read under way for too long; the client has to come
-- again. If that broker is dead, PostgreSQL is still sending an answer to it: that connection is ended, which gives the
-- messages back.
CREATE OR REPLACE FUNCTION stafette.fence_sessions(clients integer[], shown bigint[]) RETURNS integer[]
LANGUAGE plpgsql
SET lock_timeout = '500ms'     -- reads take milliseconds, and those that follow wait behind us
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    fenced integer[] := '{}';
    other  integer;
BEGIN
    FOR other IN
        SELECT DISTINCT s.last_broker_id
        FROM unnest(clients, shown) AS a (client, shown)
        JOIN stafette.sessions AS s ON s.client_id = a.client
        LEFT JOIN stafette.brokers AS b ON b.id = s.broker_id AND b.alive_until > clock_timestamp()
        WHERE b.id IS NULL OR s.session = sha256(int8send(a.shown))   -- nobody else can take it over
        ORDER BY s.last_broker_id                                     -- so that two of us cannot block each other
    LOOP
        BEGIN
            PERFORM pg_advisory_xact_lock(5746663, other);
            fenced := fenced || other;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_terminate_backend(l.pid)
            FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database AND d.datname = current_database()
            WHERE l.locktype = 'advisory' AND l.classid = 5746663 AND l.objid = other::oid AND l.objsubid = 2
              AND l.granted
              AND NOT EXISTS (SELECT FROM stafette.brokers AS b
                              WHERE b.id = other AND b.alive_until > clock_timestamp());
        END;
    END LOOP;
    RETURN fenced;
END
$$;
