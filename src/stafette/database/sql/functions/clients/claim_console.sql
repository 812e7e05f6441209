-- The web console registers its name, which nobody else can register, with this hash of its secret. As long as there is a
-- session under that name, the hash stays as it is: it may be another console's. Returns the hash that counts now.
CREATE OR REPLACE FUNCTION stafette.claim_console(hashed text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    console stafette.clients;
BEGIN
    PERFORM stafette.lock_catalog();
    INSERT INTO stafette.clients AS c (name, mode, secret, registered_at, last_seen_at)
    VALUES ('console', 'full', hashed, now(), now())
    ON CONFLICT (name, deleted_at) DO UPDATE
        SET mode = 'full', secret = excluded.secret, registered_at = coalesce(c.registered_at, now()),
            last_seen_at = now()
        WHERE NOT EXISTS (SELECT FROM stafette.sessions AS s WHERE s.client_id = c.id);
    SELECT * INTO console FROM stafette.clients AS c WHERE c.name = 'console' AND c.deleted_at IS NULL;
    INSERT INTO stafette.queues (name, creator_id, owner_id) VALUES ('@console', console.id, console.id)
    ON CONFLICT (name) DO NOTHING;
    RETURN console.secret;
END
$$;
