-- Sends one message in an application's own transaction. Returns its id. To let a role send and receive, and do nothing
-- else:
--     GRANT USAGE ON SCHEMA stafette TO app;
--     GRANT EXECUTE ON FUNCTION stafette.send, stafette.send_to_all, stafette.receive TO app;
CREATE OR REPLACE FUNCTION stafette.send(
    sender text, queue text, body bytea, receiver text DEFAULT NULL, priority integer DEFAULT 5,
    context bigint DEFAULT NULL, headers jsonb DEFAULT NULL, delay double precision DEFAULT NULL,
    ttl double precision DEFAULT NULL, key text DEFAULT NULL, allow_unknown boolean DEFAULT false
) RETURNS bigint
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT (stafette.send_to_all(sender, ARRAY[queue], body, receiver, priority, context, headers, delay, ttl, key,
                                 allow_unknown))[1]
$$;
