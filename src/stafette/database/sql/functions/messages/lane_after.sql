-- Where the next lane of a receiver begins, in the store with the lowest id above this one; NULL if there is none.
CREATE OR REPLACE FUNCTION stafette.lane_after(store integer, receiver integer) RETURNS bigint[]
LANGUAGE sql STABLE AS $$
    SELECT ARRAY[r.store_id, receiver, -1, 0]::bigint[] FROM stafette.ready AS r
    WHERE r.receiver_id = receiver AND r.receiver_id <> 0 AND r.store_id > store
    ORDER BY r.receiver_id, r.store_id LIMIT 1
$$;
