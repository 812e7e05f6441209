-- Maintenance: deletes old slots, depths of queues and operators' sessions, up to `at_most` of each kind. Returns the
-- number of rows deleted.
CREATE OR REPLACE FUNCTION stafette.forget_history(at_most integer) RETURNS bigint
LANGUAGE sql
SET enable_seqscan = off
AS $$
    WITH old_slots AS MATERIALIZED (
        (SELECT h.span, h.at FROM stafette.history AS h
         WHERE h.span = 10 AND h.at < now() - interval '24 hours' ORDER BY h.at LIMIT at_most)
        UNION ALL
        (SELECT h.span, h.at FROM stafette.history AS h
         WHERE h.span = 300 AND h.at < now() - interval '30 days' ORDER BY h.at LIMIT at_most)
    ), old_depths AS MATERIALIZED (
        SELECT d.queue_id, d.at FROM stafette.queue_depths AS d
        WHERE d.at < now() - interval '24 hours' ORDER BY d.at LIMIT at_most
    ), slots AS (
        DELETE FROM stafette.history AS h USING old_slots AS o WHERE h.span = o.span AND h.at = o.at RETURNING 1
    ), depths AS (
        DELETE FROM stafette.queue_depths AS d USING old_depths AS o
        WHERE d.queue_id = o.queue_id AND d.at = o.at RETURNING 1
    ), sessions AS (
        DELETE FROM stafette.operator_sessions AS s WHERE s.ends_at <= now() RETURNING 1
    )
    SELECT (SELECT count(*) FROM slots) + (SELECT count(*) FROM depths) + (SELECT count(*) FROM sessions)
$$;
