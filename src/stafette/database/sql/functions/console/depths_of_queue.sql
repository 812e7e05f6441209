-- The length of a queue over time, for the minutes in which it was among the longest.
CREATE OR REPLACE FUNCTION stafette.depths_of_queue(queue text, since timestamptz)
RETURNS TABLE (at timestamptz, messages bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    target stafette.queues := stafette.get_queue(queue);
BEGIN
    RETURN QUERY
    SELECT d.at, d.messages FROM stafette.queue_depths AS d
    WHERE d.queue_id = target.id AND d.at >= since ORDER BY d.at;
END
$$;
