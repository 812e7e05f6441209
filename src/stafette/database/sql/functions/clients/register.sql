-- Registers a client with its personal queue, or returns the one with this name; mode and secret are stored only the
-- first time. The secret's hash is in the result because the caller checks it.
CREATE OR REPLACE FUNCTION stafette.register(client_name text, client_mode text, client_secret text)
RETURNS TABLE (id integer, name text, mode text, secret text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF client_name !~ '^[^[:cntrl:]]{1,200}$' THEN
        PERFORM stafette.raise_fault(100, 'a client''s name has 1 to 200 characters, none of them a control character');
    ELSIF client_mode NOT IN ('full', 'read-only') THEN
        PERFORM stafette.raise_fault(100, format('mode %s is neither full nor read-only', client_mode));
    END IF;
    IF NOT EXISTS (SELECT FROM stafette.client_list AS c WHERE c.name = client_name) THEN
        INSERT INTO stafette.clients AS c (name, mode, secret, registered_at, last_seen_at)
        VALUES (client_name, client_mode, client_secret, now(), now())
        ON CONFLICT (name, deleted_at) DO UPDATE
            SET mode = excluded.mode, secret = excluded.secret, registered_at = now(), last_seen_at = now()
            WHERE c.registered_at IS NULL;
        INSERT INTO stafette.queues (name, creator_id, owner_id)
        SELECT '@' || c.name, c.id, c.id FROM stafette.clients AS c
        WHERE c.name = client_name AND c.deleted_at IS NULL
        ON CONFLICT (name) DO NOTHING;
    END IF;
    RETURN QUERY SELECT c.id, c.name, c.mode, c.secret FROM stafette.clients AS c
                 WHERE c.name = client_name AND c.deleted_at IS NULL;
END
$$;
