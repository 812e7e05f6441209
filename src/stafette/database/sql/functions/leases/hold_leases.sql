-- Locks the leases that are still held in time by these tokens and returns them with their places, in the order of
-- ids, so that two batches never wait for each other in a ring. Each is looked up by its id alone, whatever the
-- planner believes about the table: the conditions on token and end stand outside of the OFFSET, out of its reach.
CREATE OR REPLACE FUNCTION stafette.hold_leases(ids bigint[], tokens bigint[])
RETURNS TABLE (id bigint, place integer)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT l.id, a.place::integer
    FROM (
        SELECT * FROM unnest(ids, tokens) WITH ORDINALITY AS u (id, token, place) ORDER BY u.id, u.place
    ) AS a
    CROSS JOIN LATERAL (
        SELECT l.id, l.token, l.leased_until FROM stafette.leased AS l WHERE l.id = a.id OFFSET 0 FOR UPDATE
    ) AS l
    WHERE l.token = a.token AND l.leased_until > now();
END
$$;
