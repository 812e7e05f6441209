-- Maintenance: deletes up to `at_most` messages whose time to live is over. They are already invisible.
CREATE OR REPLACE FUNCTION stafette.drop_expired(at_most integer) RETURNS bigint
LANGUAGE sql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
    WITH expired AS MATERIALIZED (
        SELECT r.ctid AS tid FROM stafette.ready AS r
        WHERE r.expires_at <= now() ORDER BY r.expires_at LIMIT at_most FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM stafette.ready AS r WHERE r.ctid = ANY (ARRAY(SELECT tid FROM expired)) RETURNING 1
    )
    SELECT count(*) FROM deleted
$$;
