-- What a client holds under leases, by id: no index has the holder, so 30,000 leases are looked at.
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
