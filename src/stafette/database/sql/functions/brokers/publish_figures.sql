-- A broker lets operators know how it is; one that has been forgotten is not heard.
CREATE OR REPLACE FUNCTION stafette.publish_figures(broker integer, news jsonb) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO stafette.broker_figures (broker_id, at, figures)
    SELECT b.id, now(), news FROM stafette.brokers AS b WHERE b.id = broker FOR KEY SHARE
    ON CONFLICT (broker_id) DO UPDATE SET at = excluded.at, figures = excluded.figures
$$;
