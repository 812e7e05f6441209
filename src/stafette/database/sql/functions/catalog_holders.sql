-- The other processes that hold the lock of lock_catalog(), and when their transactions began (NULL: the role of this
-- process may not see it). A pg_dump, which locks all tables, is not in the way.
CREATE OR REPLACE FUNCTION stafette.catalog_holders() RETURNS TABLE (pid integer, since timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT l.pid, a.xact_start
    FROM pg_locks AS l
    LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.locktype = 'relation' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
      AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
      AND l.relation = 'stafette.catalog_lock'::regclass AND l.mode <> 'AccessShareLock'
$$;
