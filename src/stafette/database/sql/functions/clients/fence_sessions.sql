-- Waits until no read is under way at the brokers from which these clients would take their session over, and keeps new
-- ones from starting until the transaction ends. Every batch that hands out messages holds the shared lock of its broker
-- until its commit and serves only sessions that are in stafette.sessions. So when a take-over is committed, each read
-- of the old connection is either committed, or will be refused. It is one lock per broker and batch, not per client.
--
-- Returns the brokers that are fenced. One that is missing has had a read under way for too long; the client has to come
-- again. If that broker is dead, PostgreSQL is still sending an answer to it: that connection is ended, which gives the
-- messages back, unless a live broker shares its lock.
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
        SELECT s.last_broker_id
        FROM unnest(clients, shown) AS a (client, shown)
        JOIN stafette.sessions AS s ON s.client_id = a.client
        LEFT JOIN stafette.brokers AS b ON b.id = s.broker_id AND b.alive_until > clock_timestamp()
        WHERE b.id IS NULL OR s.session = sha256(int8send(a.shown))   -- nobody else can take it over
        GROUP BY s.last_broker_id
        ORDER BY stafette.session_lock(s.last_broker_id)              -- so that two of us cannot block each other
    LOOP
        BEGIN
            EXECUTE 'LOCK TABLE ' || stafette.session_lock(other) || ' IN EXCLUSIVE MODE';
            fenced := fenced || other;
        EXCEPTION WHEN lock_not_available THEN
            PERFORM pg_terminate_backend(l.pid)
            FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database AND d.datname = current_database()
            WHERE l.locktype = 'relation' AND l.relation = stafette.session_lock(other)::regclass
              AND l.granted AND l.mode = 'RowShareLock'
              AND NOT EXISTS (SELECT FROM stafette.brokers AS b
                              WHERE stafette.session_lock(b.id) = stafette.session_lock(other)
                                AND b.alive_until > clock_timestamp());
        END;
    END LOOP;
    RETURN fenced;
END
$$;
