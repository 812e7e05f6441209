-- The history since a time, in points of `seconds`, each from the coarsest slots that fit.
CREATE OR REPLACE FUNCTION stafette.history_points(since timestamptz, seconds integer) RETURNS TABLE (
    at timestamptz, span integer, sent bigint, received bigint, failed bigint, refused bigint, requests bigint,
    batches bigint, queue_seconds double precision, database_seconds double precision, ready bigint, delayed bigint,
    leased bigint, dead bigint, online bigint
)
LANGUAGE sql STABLE AS $$
    SELECT date_bin(seconds * interval '1 second', h.at, 'epoch'), seconds, sum(h.sent)::bigint,
           sum(h.received)::bigint, sum(h.failed)::bigint, sum(h.refused)::bigint, sum(h.requests)::bigint,
           sum(h.batches)::bigint, sum(h.queue_seconds), sum(h.database_seconds),
           (array_agg(h.ready ORDER BY h.at DESC) FILTER (WHERE h.ready IS NOT NULL))[1],
           (array_agg(h.delayed ORDER BY h.at DESC) FILTER (WHERE h.delayed IS NOT NULL))[1],
           (array_agg(h.leased ORDER BY h.at DESC) FILTER (WHERE h.leased IS NOT NULL))[1],
           (array_agg(h.dead ORDER BY h.at DESC) FILTER (WHERE h.dead IS NOT NULL))[1],
           (array_agg(h.online ORDER BY h.at DESC) FILTER (WHERE h.online IS NOT NULL))[1]
    FROM stafette.history AS h
    WHERE h.span = CASE WHEN seconds % 300 = 0 THEN 300 ELSE 10 END
      AND h.at >= date_bin(seconds * interval '1 second', since, 'epoch')
    GROUP BY 1 ORDER BY 1
$$;
