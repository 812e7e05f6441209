-- Gives leased messages back before their time, each after its delay (NULL or 0: at once). Returns the places that
-- still held their lease, as ack_batch() does, each with the queue in which its message is ready now, if it is.
CREATE OR REPLACE FUNCTION stafette.nack_batch(ids bigint[], tokens bigint[], delays double precision[])
RETURNS TABLE (place integer, queue text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    held        bigint[];
    held_delays double precision[];
    places      integer[];
BEGIN
    PERFORM stafette.lock_catalog();

    SELECT array_agg(h.id), array_agg(delays[h.place]), array_agg(h.place) INTO held, held_delays, places
    FROM (SELECT h.id, min(h.place) AS place FROM stafette.hold_leases(ids, tokens) AS h GROUP BY h.id) AS h;

    RETURN QUERY
    SELECT h.place, g.queue
    FROM unnest(held, places) AS h (id, place) JOIN stafette.give_back(held, held_delays) AS g ON g.id = h.id;
END
$$;
