-- Stores a broker's metrics for operators; ignored if the broker is not registered.
CREATE OR REPLACE FUNCTION stafette.publish_metrics(broker integer, metrics jsonb) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO stafette.broker_figures (broker_id, at, figures)
    SELECT b.id, now(), metrics FROM stafette.brokers AS b WHERE b.id = broker FOR KEY SHARE
    ON CONFLICT (broker_id) DO UPDATE SET at = excluded.at, figures = excluded.figures
$$;
