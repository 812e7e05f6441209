-- Deletes what was kept of answers that have been seen: pairs of session and request.
CREATE OR REPLACE FUNCTION stafette.forget_seen(sessions bigint[], request_ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
BEGIN
    IF cardinality(sessions) > 0 THEN
        DELETE FROM stafette.received AS r WHERE r.ctid = ANY (ARRAY(
            SELECT k.tid
            FROM unnest(sessions, request_ids) AS s (session, request)
            CROSS JOIN LATERAL (
                SELECT r.ctid AS tid FROM stafette.received AS r
                WHERE r.session = s.session AND r.request = s.request OFFSET 0
            ) AS k
        ));
    END IF;
END
$$;
