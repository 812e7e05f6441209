-- The messages that a client has leased, by id. No index has the holder, so at most 30,000 leases are searched.
CREATE OR REPLACE FUNCTION stafette.held_messages(holder integer, at_most integer)
RETURNS SETOF stafette.message_list
LANGUAGE sql STABLE
SET enable_seqscan = off
AS $$
    SELECT l.*
    FROM (SELECT m.id FROM (SELECT m.id, m.holder_id FROM stafette.leased AS m ORDER BY m.id LIMIT 30000) AS m
          WHERE m.holder_id = holder LIMIT at_most) AS m
    JOIN stafette.message_list AS l ON l.state = 'leased' AND l.id = m.id
    ORDER BY l.id
$$;
