-- Maintenance: deletes up to `at_most` messages that were received more than `seconds` ago, in answers that nobody has
-- named as seen. Returns their number, and about how many there are.
CREATE OR REPLACE FUNCTION stafette.forget_received(seconds double precision, at_most integer)
RETURNS TABLE (deleted bigint, remaining bigint)
LANGUAGE sql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
    WITH old AS MATERIALIZED (
        SELECT r.ctid AS tid FROM stafette.received AS r
        WHERE r.received_at < now() - seconds * interval '1 second'
        ORDER BY r.received_at LIMIT at_most FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM stafette.received AS r WHERE r.ctid = ANY (ARRAY(SELECT o.tid FROM old AS o)) RETURNING 1
    )
    SELECT count(*), pg_stat_get_live_tuples('stafette.received'::regclass) FROM deleted
$$;
