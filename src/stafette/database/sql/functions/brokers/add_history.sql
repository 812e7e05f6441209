-- A broker adds the work of its last 10 s to the history, in the slots that contain the middle of these 10 s.
CREATE OR REPLACE FUNCTION stafette.add_history(
    sent bigint, received bigint, failed bigint, refused bigint, requests bigint, batches bigint,
    queue_seconds double precision, database_seconds double precision
) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO stafette.history AS h
        (span, at, sent, received, failed, refused, requests, batches, queue_seconds, database_seconds)
    SELECT t.span, date_bin(t.span * interval '1 second', now() - interval '5 seconds', 'epoch'), add_history.sent,
           add_history.received, add_history.failed, add_history.refused, add_history.requests, add_history.batches,
           add_history.queue_seconds, add_history.database_seconds
    FROM (VALUES (10), (300)) AS t (span) ORDER BY t.span
    ON CONFLICT (span, at) DO UPDATE SET sent = h.sent + excluded.sent, received = h.received + excluded.received,
        failed = h.failed + excluded.failed, refused = h.refused + excluded.refused,
        requests = h.requests + excluded.requests, batches = h.batches + excluded.batches,
        queue_seconds = h.queue_seconds + excluded.queue_seconds,
        database_seconds = h.database_seconds + excluded.database_seconds
$$;
