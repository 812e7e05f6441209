-- PostgreSQL's own counters for this database; all but the last three only grow.
CREATE OR REPLACE FUNCTION stafette.statistics()
RETURNS TABLE (
    commits bigint, rollbacks bigint, blocks_read bigint, blocks_hit bigint, rows_inserted bigint, rows_deleted bigint,
    deadlocks bigint, wal_bytes bigint, dead_rows bigint, connections bigint, active bigint
)
LANGUAGE sql STABLE AS $$
    SELECT d.xact_commit, d.xact_rollback, d.blks_read, d.blks_hit, d.tup_inserted, d.tup_deleted, d.deadlocks,
           (SELECT w.wal_bytes::bigint FROM pg_stat_wal AS w),
           (SELECT sum(t.n_dead_tup)::bigint FROM pg_stat_user_tables AS t WHERE t.schemaname = 'stafette'),
           (SELECT count(*) FROM pg_stat_activity AS a WHERE a.datid = d.datid),
           (SELECT count(*) FROM pg_stat_activity AS a WHERE a.datid = d.datid AND a.state = 'active')
    FROM pg_stat_database AS d WHERE d.datname = current_database()
$$;
