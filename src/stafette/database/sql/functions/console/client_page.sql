-- A page of the clients whose name contains a text, in any case, by name: all, those online, or those offline.
CREATE OR REPLACE FUNCTION stafette.client_page(part text, are_online boolean, after_name text, at_most integer)
RETURNS TABLE (
    id integer, name text, mode text, registered_at timestamptz, last_seen_at timestamptz, broker text,
    online_since timestamptz, has_secret boolean
)
LANGUAGE sql STABLE AS $$
    SELECT c.id, c.name, c.mode, c.registered_at, c.last_seen_at, l.broker,
           CASE WHEN l.broker IS NOT NULL THEN s.since END, c.secret IS NOT NULL
    FROM stafette.clients AS c
    JOIN stafette.client_list AS l ON l.id = c.id
    LEFT JOIN stafette.sessions AS s ON s.client_id = c.id
    WHERE (part = '' OR position(lower(part) IN lower(c.name)) > 0)
      AND (are_online IS NULL OR are_online = (l.broker IS NOT NULL))
      AND c.name > coalesce(after_name, '')
    ORDER BY c.name LIMIT at_most
$$;
