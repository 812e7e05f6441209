-- Removes and returns the commands of operators to a broker, in their order.
CREATE OR REPLACE FUNCTION stafette.take_commands(broker integer)
RETURNS TABLE (command text, client integer, token bigint)
LANGUAGE sql
SET enable_seqscan = off
AS $$
    WITH taken AS (
        DELETE FROM stafette.broker_commands AS c WHERE c.broker_id = broker RETURNING c.*
    )
    SELECT t.command, t.client_id, t.token FROM taken AS t ORDER BY t.id
$$;
