-- A purge by a client leaves alone what others have sent to others (functions/queues/purge.sql). Whether there is any is a
-- probe of the key of ready, and of this index.
CREATE INDEX delayed_by_lane ON stafette.delayed (store_id, receiver_id, id) WHERE receiver_id <> 0;

-- The name console is the web console's, and nobody else can register it any more (functions/clients/is_reserved.sql).
--
-- Existing rows: a client of that name without a secret is somebody else's, because the console always had one. It is
-- renamed to former-console (former-console-2 and so on where that is taken), with its personal queue; its id, its
-- messages and those for it stay as they are, and it goes on under its new name. One with a secret is taken to be the
-- console, which gets it, its queue and its messages: the console gives it a new secret when it next connects.
DO $$
DECLARE
    client   integer := (SELECT c.id FROM stafette.clients AS c
                         WHERE c.name = 'console' AND c.registered_at IS NOT NULL AND c.secret IS NULL);
    new_name text := 'former-console';
    number   integer := 1;
BEGIN
    IF client IS NULL THEN
        RETURN;
    END IF;
    WHILE EXISTS (SELECT FROM stafette.clients AS c WHERE c.name = new_name)
       OR EXISTS (SELECT FROM stafette.queues AS q WHERE q.name = '@' || new_name) LOOP
        number := number + 1;
        new_name := 'former-console-' || number;
    END LOOP;
    UPDATE stafette.clients AS c SET name = new_name WHERE c.id = client;
    UPDATE stafette.queues AS q SET name = '@' || new_name WHERE q.owner_id = client;
END
$$;
