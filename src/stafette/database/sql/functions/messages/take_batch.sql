-- Removes messages for many asks at once. Plain asks, nearly all of them under load, are answered by one set-based
-- statement: it locks in each queue the number of messages that the asks want, and assigns them in order. The others go
-- one by one through take(). (A loop for all asks gave a quarter of the throughput.)
CREATE OR REPLACE FUNCTION stafette.take_batch(asks stafette.ask[])
RETURNS TABLE (
    place integer, id bigint, store_id integer, receiver_id integer, sender_id integer, rank smallint,
    deliveries smallint, context bigint, arrived_at timestamptz, expires_at timestamptz, headers jsonb, body bytea
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    ask stafette.ask;
BEGIN
    RETURN QUERY
    WITH plain AS MATERIALIZED (
        SELECT a.place, a.store_id, a.wanted,
               sum(a.wanted) OVER (PARTITION BY a.store_id ORDER BY a.place) AS up_to
        FROM unnest(asks) AS a WHERE a.plain AND a.fault IS NULL
    ), head AS MATERIALIZED (
        SELECT m.tid
        FROM (SELECT p.store_id, sum(p.wanted) AS wanted FROM plain AS p GROUP BY p.store_id) AS q
        CROSS JOIN LATERAL (
            SELECT r.ctid AS tid FROM stafette.ready AS r
            WHERE r.store_id = q.store_id AND r.receiver_id = 0
              AND (r.expires_at IS NULL OR r.expires_at > now())
            ORDER BY r.rank, r.id LIMIT q.wanted
            FOR UPDATE SKIP LOCKED
        ) AS m
    ), deleted AS (
        DELETE FROM stafette.ready AS r WHERE r.ctid = ANY (ARRAY(SELECT h.tid FROM head AS h)) RETURNING r.*
    ), dealt AS (
        SELECT g.*, row_number() OVER (PARTITION BY g.store_id ORDER BY g.rank, g.id) AS turn FROM deleted AS g
    )
    SELECT p.place, d.id, d.store_id, d.receiver_id, d.sender_id, d.rank, d.deliveries, d.context, d.arrived_at,
           d.expires_at, d.headers, d.body
    FROM dealt AS d
    JOIN plain AS p ON p.store_id = d.store_id AND d.turn > p.up_to - p.wanted AND d.turn <= p.up_to;

    FOREACH ask IN ARRAY asks LOOP
        CONTINUE WHEN ask.plain OR ask.fault IS NOT NULL;
        RETURN QUERY
        SELECT ask.place, t.*
        FROM stafette.take(ask.me, ask.store_id, ask.sender_id, ask.context, ask.by_arrival, ask.wanted) AS t;
    END LOOP;
END
$$;
