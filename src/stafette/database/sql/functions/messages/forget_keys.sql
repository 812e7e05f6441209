-- Maintenance: deletes up to `at_most` idempotency keys that have expired.
CREATE OR REPLACE FUNCTION stafette.forget_keys(at_most integer) RETURNS bigint
LANGUAGE sql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
    WITH old AS MATERIALIZED (
        SELECT k.ctid AS tid FROM stafette.keys AS k
        WHERE k.expires_at <= now() ORDER BY k.expires_at LIMIT at_most FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM stafette.keys AS k WHERE k.ctid = ANY (ARRAY(SELECT tid FROM old)) RETURNING 1
    )
    SELECT count(*) FROM deleted
$$;
