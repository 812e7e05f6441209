-- Acknowledges leased messages. Returns the place in the batch of each lease that was still valid; the leases of the
-- other places are lost.
CREATE OR REPLACE FUNCTION stafette.ack_batch(clients integer[], ids bigint[], tokens bigint[]) RETURNS SETOF integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
BEGIN
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT h.id, min(h.place) AS place FROM stafette.lock_leases(clients, ids, tokens) AS h GROUP BY h.id
    ), done AS (
        DELETE FROM stafette.leased AS l WHERE l.id = ANY (ARRAY(SELECT h.id FROM held AS h))
    )
    SELECT h.place FROM held AS h;
END
$$;
