-- Finds the clients that say hello, and registers new ones with their personal queues; mode and secret are stored only
-- the first time. A fault is a row of its own, also for a new name that is reserved. A new name with a secret that is not yet hashed (`registers` is false) is
-- a row without an id. The secret's hash is in the result because the caller checks it, unless the number that the
-- client shows proves who it is.
CREATE OR REPLACE FUNCTION stafette.register_batch(
    names text[], modes text[], secrets text[], registers boolean[], shown bigint[]
) RETURNS TABLE (
    place integer, fault integer, detail text, id integer, name text, mode text, secret text, proved boolean
)
LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
#variable_conflict use_column
DECLARE
    newcomers text[] := ARRAY(
        SELECT DISTINCT a.name
        FROM unnest(names, modes, registers) AS a (name, mode, registers)
        WHERE a.registers AND a.name ~ '^[^[:cntrl:]]{1,200}$' AND a.mode IN ('full', 'read-only')
          AND NOT stafette.is_reserved(a.name)
          AND NOT EXISTS (SELECT FROM stafette.clients AS c WHERE c.name = a.name AND c.registered_at IS NOT NULL)
    );
BEGIN
    IF newcomers <> '{}' THEN
        INSERT INTO stafette.clients AS c (name, mode, secret, registered_at, last_seen_at)
        SELECT DISTINCT ON (a.name) a.name, a.mode, a.secret, now(), now()
        FROM unnest(names, modes, secrets, registers) WITH ORDINALITY AS a (name, mode, secret, registers, place)
        WHERE a.registers AND a.name = ANY (newcomers) AND a.mode IN ('full', 'read-only')
        ORDER BY a.name, a.place                     -- one order everywhere: no two brokers block each other
        ON CONFLICT (name, deleted_at) DO UPDATE
            SET mode = excluded.mode, secret = excluded.secret, registered_at = now(), last_seen_at = now()
            WHERE c.registered_at IS NULL;
        INSERT INTO stafette.queues (name, creator_id, owner_id)
        SELECT '@' || c.name, c.id, c.id FROM stafette.clients AS c
        WHERE c.name = ANY (newcomers) AND c.deleted_at IS NULL ORDER BY c.name
        ON CONFLICT (name) DO NOTHING;
    END IF;
    RETURN QUERY
    SELECT a.place::integer, f.fault, f.detail, c.id, c.name, c.mode, c.secret,
           coalesce(stafette.session_proves(s, a.shown), false)
    FROM unnest(names, modes, shown) WITH ORDINALITY AS a (name, mode, shown, place)
    CROSS JOIN LATERAL (
        SELECT CASE
                   WHEN a.name !~ '^[^[:cntrl:]]{1,200}$' OR a.mode NOT IN ('full', 'read-only') THEN 100
                   WHEN r.is_new THEN 108
               END AS fault,
               CASE
                   WHEN a.name !~ '^[^[:cntrl:]]{1,200}$'
                       THEN 'a client''s name has 1 to 200 characters, none of them a control character'
                   WHEN a.mode NOT IN ('full', 'read-only')
                       THEN format('mode %s is neither full nor read-only', a.mode)
                   WHEN r.is_new THEN format('the name %s is the web console''s; choose another', a.name)
               END AS detail
        FROM (SELECT stafette.is_reserved(a.name) AND NOT EXISTS (
                  SELECT FROM stafette.clients AS c WHERE c.name = a.name AND c.registered_at IS NOT NULL) AS is_new) AS r
    ) AS f
    LEFT JOIN stafette.clients AS c ON c.name = a.name AND c.registered_at IS NOT NULL AND f.fault IS NULL
    LEFT JOIN stafette.sessions AS s ON s.client_id = c.id
    ORDER BY a.place;
END
$$;
