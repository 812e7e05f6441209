-- Lets leases end `seconds` from now. Returns the places whose lease was still valid, as ack_batch() does.
CREATE OR REPLACE FUNCTION stafette.extend_batch(
    clients integer[], ids bigint[], tokens bigint[], seconds double precision[]
) RETURNS SETOF integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
BEGIN
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT h.id, h.place FROM stafette.lock_leases(clients, ids, tokens) AS h
    ), last AS (
        SELECT h.id, seconds[max(h.place)] AS seconds FROM held AS h GROUP BY h.id
    ), extended AS (
        UPDATE stafette.leased AS l SET leased_until = now() + h.seconds * interval '1 second'
        FROM last AS h WHERE l.id = h.id AND l.id = ANY (ids)
    )
    SELECT h.place FROM held AS h;
END
$$;
