-- Sends one message to several queues, to all of them or to none, in an application's own transaction. Returns its id
-- in each queue.
CREATE OR REPLACE FUNCTION stafette.send_to_all(
    sender text, queues text[], body bytea, receiver text DEFAULT NULL, priority integer DEFAULT 5,
    context bigint DEFAULT NULL, headers jsonb DEFAULT NULL, delay double precision DEFAULT NULL,
    ttl double precision DEFAULT NULL, key text DEFAULT NULL, allow_unknown boolean DEFAULT false
) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parts     integer[] := ARRAY[cardinality(queues)];
    sender_id integer := stafette.sql_client(sender);
    ids       bigint[];
    fault     integer;
    detail    text;
BEGIN
    IF coalesce(cardinality(queues), 0) = 0 THEN
        PERFORM stafette.raise_fault(100, 'name at least one queue');
    ELSIF body IS NULL THEN
        PERFORM stafette.raise_fault(100, 'the body is NULL; an empty body is allowed');
    ELSIF priority NOT BETWEEN 1 AND 10 THEN
        PERFORM stafette.raise_fault(100, format('priority %s is not between 1 and 10', priority));
    END IF;
    SELECT array_agg(a.id), min(a.fault), min(a.detail) INTO ids, fault, detail
    FROM stafette.send_batch(
        array_fill(1, parts), array_fill(sender_id, parts), queues, array_fill(receiver, parts),
        array_fill(priority::smallint, parts), array_fill(context, parts), array_fill(headers, parts),
        array_fill(body, parts), array_fill(delay, parts), array_fill(ttl, parts), array_fill(key, parts),
        array_fill(allow_unknown, parts)
    ) AS a;
    IF fault IS NOT NULL THEN
        PERFORM stafette.raise_fault(fault, detail);
    END IF;
    IF delay IS NULL OR delay = 0 THEN
        INSERT INTO stafette.sql_sends (transaction, queue)        -- notifies brokers at the commit
        SELECT pg_current_xact_id(), q.name FROM unnest(queues) AS q (name)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN ids;
END
$$;
