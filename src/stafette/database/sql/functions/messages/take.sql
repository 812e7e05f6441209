-- Removes and returns the messages that a client gets next: first peek, then lock exactly these. Messages that another
-- transaction has locked are skipped, and the peek is repeated. So a message is never locked without being removed,
-- which would hide it from others for a moment, and break the order.
CREATE OR REPLACE FUNCTION stafette.take(
    reader integer, in_store integer, from_sender integer, with_context bigint, by_arrival boolean, wanted integer
) RETURNS SETOF stafette.ready
LANGUAGE plpgsql
AS $$
DECLARE
    tids    tid[];
    ids     bigint[];
    skipped bigint[] := '{}';
    missing integer := wanted;
    got     integer;
BEGIN
    LOOP
        SELECT array_agg(l.tid), array_agg(l.id) INTO tids, ids
        FROM stafette.peek_next(reader, in_store, from_sender, with_context, by_arrival, missing, skipped) AS l;
        EXIT WHEN ids IS NULL;

        RETURN QUERY
        DELETE FROM stafette.ready AS deleted
        WHERE deleted.ctid = ANY (ARRAY(
            SELECT r.ctid FROM stafette.ready AS r
            WHERE r.ctid = ANY (tids) AND r.id = ANY (ids)     -- the id too: a ctid may have been reused
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING deleted.*;
        GET DIAGNOSTICS got = ROW_COUNT;
        missing := missing - got;
        EXIT WHEN missing = 0 OR got = cardinality(ids);
        skipped := skipped || ids;
    END LOOP;
END
$$;
