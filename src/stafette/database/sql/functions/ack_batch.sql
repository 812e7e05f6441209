-- Ends leases: the message is done with. Returns, for each lease still held in time, its place; a place that is
-- missing has lost its lease.
CREATE OR REPLACE FUNCTION stafette.ack_batch(ids bigint[], tokens bigint[]) RETURNS SETOF integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    RETURN QUERY
    WITH held AS MATERIALIZED (   -- locked in the order of ids, so that two batches never wait for each other in a ring
        SELECT l.id, a.place FROM unnest(ids, tokens) WITH ORDINALITY AS a (id, token, place)
        JOIN stafette.leased AS l ON l.id = a.id AND l.token = a.token AND l.leased_until > now()
        ORDER BY l.id
        FOR UPDATE OF l
    ), done AS (
        DELETE FROM stafette.leased AS l USING held AS h WHERE l.id = h.id RETURNING l.id
    )
    SELECT min(h.place)::integer FROM held AS h JOIN done AS d ON d.id = h.id GROUP BY h.id;
END
$$;
