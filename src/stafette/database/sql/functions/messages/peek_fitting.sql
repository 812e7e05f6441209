-- What peek_next() shows of an ask, cut to `budget` bytes, and at least one message. `fits`: whether the messages up to
-- this one are an answer that the client takes (`room` bytes), whatever their names: three, of 200 characters of four bytes.
CREATE OR REPLACE FUNCTION stafette.peek_fitting(
    ask stafette.ask, wanted integer, skipped bigint[], budget bigint, room bigint
) RETURNS TABLE (tid tid, id bigint, size bigint, fits boolean)
LANGUAGE sql STABLE AS $$
    SELECT m.tid, m.id, m.size, m.fits
    FROM (
        SELECT n.tid, n.id, n.turn, s.size, sum(s.size) OVER w AS total,
               sum(s.size + 2500) OVER w <= room AS fits
        FROM stafette.peek_next(ask.me, ask.store_id, ask.sender_id, ask.context, ask.by_arrival, wanted, skipped)
             WITH ORDINALITY AS n (tid, id, turn)
        CROSS JOIN LATERAL (SELECT stafette.message_size(r.headers, r.body) AS size
                            FROM stafette.ready AS r WHERE r.ctid = n.tid LIMIT 1) AS s
        WINDOW w AS (ORDER BY n.turn)
    ) AS m
    WHERE m.turn = 1 OR m.total <= budget AND m.fits
    ORDER BY m.turn
$$;
