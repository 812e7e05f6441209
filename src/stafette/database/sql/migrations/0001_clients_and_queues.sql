-- Who takes part, and where messages can be.

-- A row without registered_at is a name only: somebody addressed it before it ever connected, or it was deleted while
-- messages still bear it as their sender.
CREATE TABLE stafette.clients (
    id            integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,   -- starts at 1: receiver 0 means anyone
    name          text        NOT NULL UNIQUE CHECK (name ~ '^[^[:cntrl:]]{1,200}$'),
    mode          text        NOT NULL DEFAULT 'full' CHECK (mode IN ('full', 'read-only')),
    secret        text,                                                   -- a salted hash, never the secret
    registered_at timestamptz,
    last_seen_at  timestamptz
);

-- A broker that renews its lease in time is alive. All its sessions live and die with that one lease, so ten thousand
-- idle clients cost one small UPDATE now and then.
CREATE TABLE stafette.brokers (
    id          integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text        NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT now(),
    alive_until timestamptz NOT NULL
);

-- One live session per client name, across all brokers. The token tells this session from a later one,
-- and is not to be guessed: who shows it may continue the session elsewhere.
CREATE TABLE stafette.sessions (
    client_id integer     PRIMARY KEY REFERENCES stafette.clients ON DELETE CASCADE,
    broker_id integer     NOT NULL REFERENCES stafette.brokers ON DELETE CASCADE,
    token     bigint      NOT NULL,
    since     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sessions_by_broker ON stafette.sessions (broker_id);

CREATE TABLE stafette.queues (
    id             integer     GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name           text        NOT NULL UNIQUE CHECK (name ~ '^[^[:cntrl:]]{1,201}$'),
    creator_id     integer     NOT NULL REFERENCES stafette.clients,
    created_at     timestamptz NOT NULL DEFAULT now(),
    owner_id       integer     UNIQUE REFERENCES stafette.clients,        -- set: the personal queue of that client
    exclude_own    boolean     NOT NULL DEFAULT false,
    max_body       integer     NOT NULL DEFAULT 1048576 CHECK (max_body BETWEEN 0 AND 67108864),
    max_deliveries smallint    NOT NULL DEFAULT 5 CHECK (max_deliveries >= 1),
    dead_letter_id integer     REFERENCES stafette.queues ON DELETE SET NULL,
    CHECK (name LIKE '@%' = (owner_id IS NOT NULL)),
    CHECK (dead_letter_id <> id)
);
CREATE INDEX queues_by_dead_letter ON stafette.queues (dead_letter_id) WHERE dead_letter_id IS NOT NULL;
