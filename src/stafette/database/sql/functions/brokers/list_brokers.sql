-- Brokers by name, each with its number of sessions and the metrics that it published last.
CREATE OR REPLACE FUNCTION stafette.list_brokers() RETURNS TABLE (
    id integer, name text, started_at timestamptz, alive_until timestamptz, alive boolean, clients bigint,
    figures jsonb, figures_at timestamptz
)
LANGUAGE sql STABLE AS $$
    SELECT b.id, b.name, b.started_at, b.alive_until, b.alive_until > now(),
           (SELECT count(*) FROM stafette.sessions AS s WHERE s.broker_id = b.id), f.figures, f.at
    FROM stafette.brokers AS b
    LEFT JOIN stafette.broker_figures AS f ON f.broker_id = b.id
    ORDER BY b.name, b.id
$$;
