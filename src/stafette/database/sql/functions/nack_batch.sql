-- Gives leased messages back before their time, each after its delay (NULL or 0: at once). Returns the places that
-- still held their lease, as ack_batch() does, each with the queue in which its message is ready now, if it is.
CREATE OR REPLACE FUNCTION stafette.nack_batch(ids bigint[], tokens bigint[], delays double precision[])
RETURNS TABLE (place integer, queue text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    held        bigint[];
    held_delays double precision[];
    places      integer[];
BEGIN
    PERFORM stafette.hold_structure();

    SELECT array_agg(h.id), array_agg(h.delay), array_agg(h.place) INTO held, held_delays, places
    FROM (
        SELECT l.id, a.delay, a.place, row_number() OVER (PARTITION BY l.id ORDER BY a.place) AS turn
        FROM (
            SELECT l.id, l.token FROM stafette.leased AS l
            WHERE l.id = ANY (ids) AND l.leased_until > now() ORDER BY l.id FOR UPDATE
        ) AS l
        JOIN unnest(ids, tokens, delays) WITH ORDINALITY AS a (id, token, delay, place)
            ON a.id = l.id AND a.token = l.token
    ) AS h WHERE h.turn = 1;

    RETURN QUERY
    SELECT h.place, g.queue
    FROM unnest(held, places) AS h (id, place) JOIN stafette.give_back(held, held_delays) AS g ON g.id = h.id;
END
$$;
