-- Removes and returns the next message in an application's own transaction; no row if there is none. If that
-- transaction rolls back, the message is ready again.
CREATE OR REPLACE FUNCTION stafette.receive(
    client text, queue text DEFAULT NULL, sender text DEFAULT NULL, context bigint DEFAULT NULL,
    by_arrival boolean DEFAULT false, wanted integer DEFAULT 1
) RETURNS TABLE (
    id bigint, queue_name text, sender_name text, receiver_name text, message_context bigint, priority integer,
    arrived_at timestamptz, deliveries integer, headers jsonb, body bytea
)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    a stafette.answer;
BEGIN
    FOR a IN SELECT * FROM stafette.receive_batch(
        ARRAY[stafette.sql_client(client)], ARRAY[queue], ARRAY[sender], ARRAY[context], ARRAY[by_arrival],
        ARRAY[wanted], ARRAY[NULL::bigint], 4611686018427387904
    ) LOOP
        IF a.fault IS NOT NULL THEN
            PERFORM stafette.raise_fault(a.fault, a.detail);
        END IF;
        RETURN QUERY SELECT a.id, a.queue, a.sender, a.receiver, a.context, a.priority, a.arrived_at, a.deliveries,
                            a.headers, a.body;
    END LOOP;
END
$$;
