-- Sets leases to end so many seconds from now. Returns the places that still held their lease, as ack_batch() does.
CREATE OR REPLACE FUNCTION stafette.extend_batch(ids bigint[], tokens bigint[], seconds double precision[])
RETURNS SETOF integer
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
BEGIN
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT l.id, a.place, a.seconds
        FROM unnest(ids, tokens, seconds) WITH ORDINALITY AS a (id, token, seconds, place)
        JOIN stafette.leased AS l ON l.id = a.id AND l.token = a.token AND l.leased_until > now()
        ORDER BY l.id, a.place
        FOR UPDATE OF l
    ), last AS (
        SELECT DISTINCT ON (h.id) h.id, h.seconds FROM held AS h ORDER BY h.id, h.place DESC
    ), extended AS (
        UPDATE stafette.leased AS l SET leased_until = now() + h.seconds * interval '1 second'
        FROM last AS h WHERE l.id = h.id
    )
    SELECT h.place::integer FROM held AS h;
END
$$;
