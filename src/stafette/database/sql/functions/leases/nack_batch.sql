-- Gives leased messages back, each after its delay (NULL or 0: at once). Returns the places whose lease was still
-- valid, as ack_batch() does, each with the queue in which its message is ready now, or NULL.
CREATE OR REPLACE FUNCTION stafette.nack_batch(
    clients integer[], ids bigint[], tokens bigint[], delays double precision[]
) RETURNS TABLE (place integer, queue text)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    lease_ids    bigint[];
    lease_delays double precision[];
    places       integer[];
BEGIN
    PERFORM stafette.lock_catalog();

    SELECT array_agg(h.id), array_agg(delays[h.place]), array_agg(h.place) INTO lease_ids, lease_delays, places
    FROM (SELECT h.id, min(h.place) AS place FROM stafette.lock_leases(clients, ids, tokens) AS h GROUP BY h.id) AS h;

    RETURN QUERY
    SELECT h.place, g.queue
    FROM unnest(lease_ids, places) AS h (id, place)
    JOIN stafette.give_back(lease_ids, lease_delays) AS g ON g.id = h.id;
END
$$;
