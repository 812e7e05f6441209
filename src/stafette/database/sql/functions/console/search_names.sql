-- Queues and clients whose name contains a text, in any case; the shortest, which match best, first.
CREATE OR REPLACE FUNCTION stafette.search_names(part text, at_most integer) RETURNS TABLE (kind text, name text)
LANGUAGE sql STABLE AS $$
    (SELECT 'queue', q.name FROM stafette.queues AS q
     WHERE position(lower(part) IN lower(q.name)) > 0 ORDER BY length(q.name), q.name LIMIT at_most)
    UNION ALL
    (SELECT 'client', c.name FROM stafette.clients AS c
     WHERE position(lower(part) IN lower(c.name)) > 0 AND c.registered_at IS NOT NULL
     ORDER BY length(c.name), c.name LIMIT at_most)
$$;
