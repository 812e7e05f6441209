-- The other processes that hold the lock of lock_catalog(), and when their transactions began (NULL: the role of this
-- process may not see it).
CREATE OR REPLACE FUNCTION stafette.catalog_holders() RETURNS TABLE (pid integer, since timestamptz)
LANGUAGE sql STABLE AS $$
    SELECT l.pid, a.xact_start
    FROM pg_locks AS l
    LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()
      AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
      AND l.classid = 0 AND l.objid = 5746661 AND l.objsubid = 1
$$;
