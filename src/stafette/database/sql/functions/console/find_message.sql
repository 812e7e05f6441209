-- One message of a queue, with its body, in any state; no row if there is none.
CREATE OR REPLACE FUNCTION stafette.find_message(in_queue text, message_id bigint)
RETURNS TABLE (message stafette.message_list, body bytea)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
DECLARE
    target stafette.queues := stafette.get_queue(in_queue);
BEGIN
    RETURN QUERY
    SELECT l, m.body
    FROM stafette.find_in_ready(target.store_id, message_id) AS f
    JOIN stafette.message_list AS l ON l.state = 'ready' AND l.store_id = f.store_id
        AND l.receiver_id = f.receiver_id AND l.rank = f.rank AND l.id = message_id
    JOIN stafette.ready AS m ON m.store_id = f.store_id AND m.receiver_id = f.receiver_id AND m.rank = f.rank
        AND m.id = message_id;
    RETURN QUERY
    SELECT l, m.body
    FROM stafette.message_list AS l
    JOIN stafette.every_message AS m ON m.state = l.state AND m.store_id = l.store_id AND m.id = l.id
    WHERE l.state IN ('delayed', 'leased', 'dead') AND m.state IN ('delayed', 'leased', 'dead')
      AND l.store_id = CASE WHEN l.state = 'delayed' THEN target.store_id ELSE target.id END AND l.id = message_id;
END
$$;
