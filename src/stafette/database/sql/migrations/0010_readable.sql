-- What is stored can be read: every value that the wire has to carry is constrained here, because SQL callers write too.
-- A header is a text, and a time is one that every client can name. A constraint costs nothing where headers are NULL.
--
-- Existing rows stay, all of them, and are made to fit: a header that is no text becomes its JSON text (1 becomes "1",
-- null becomes "null"); a time to live that ends after the year 9000 becomes none; a message that would be due, or a
-- lease that would end, after that year does so in it; a time of arrival out of bounds, which only a hand can have
-- written, becomes the nearer bound. Keys and leases stay as they are, tokens included: their holders can go on.

CREATE FUNCTION stafette.headers_as_texts(headers jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_object_agg(h.key, CASE jsonb_typeof(h.value) WHEN 'string' THEN h.value ELSE to_jsonb(h.value::text) END)
    FROM jsonb_each(headers) AS h
$$;

DO $$
DECLARE
    state text;
BEGIN
    FOREACH state IN ARRAY ARRAY['ready', 'delayed', 'leased', 'dead'] LOOP
        EXECUTE format($sql$
            UPDATE stafette.%1$I SET headers = stafette.headers_as_texts(headers)
            WHERE headers @? 'strict $.* ? (@.type() != "string")';

            UPDATE stafette.%1$I SET expires_at = NULL WHERE expires_at >= '9000-01-01 00:00+00';

            UPDATE stafette.%1$I
            SET arrived_at = greatest('1970-01-01 00:00+00', least(arrived_at, '9000-01-01 00:00+00'))
            WHERE NOT arrived_at BETWEEN '1970-01-01 00:00+00' AND '9000-01-01 00:00+00';

            ALTER TABLE stafette.%1$I
                ADD CONSTRAINT %1$s_headers_are_texts CHECK (NOT headers @? 'strict $.* ? (@.type() != "string")'),
                ADD CONSTRAINT %1$s_times_are_dates CHECK (
                    arrived_at BETWEEN '1970-01-01 00:00+00' AND '9000-01-01 00:00+00'
                    AND expires_at BETWEEN '1970-01-01 00:00+00' AND '9000-01-01 00:00+00'
                )
        $sql$, state);
    END LOOP;
END
$$;

DROP FUNCTION stafette.headers_as_texts(jsonb);

UPDATE stafette.delayed SET due_at = '9000-01-01 00:00+00' WHERE due_at > '9000-01-01 00:00+00';
UPDATE stafette.leased SET leased_until = '9000-01-01 00:00+00' WHERE leased_until > '9000-01-01 00:00+00';
ALTER TABLE stafette.delayed ADD CONSTRAINT delayed_is_due_some_day CHECK (due_at <= '9000-01-01 00:00+00');
ALTER TABLE stafette.leased ADD CONSTRAINT leased_ends_some_day CHECK (leased_until <= '9000-01-01 00:00+00');

-- The lanes of a context, each in reading order, so that one with a hundred thousand messages is read as a queue is.
DROP INDEX stafette.ready_by_context;
CREATE INDEX ready_by_context ON stafette.ready (context, store_id, receiver_id, rank, id) WHERE context IS NOT NULL;

-- Tokens are random: who leases draws them.
DROP SEQUENCE stafette.lease_token;

-- Keys may be hundreds of millions, and a vacuum reads both of their indexes whole: hence a share of them, where tables of
-- messages have a number of dead rows. The number is for a table that is small.
ALTER TABLE stafette.keys SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 10000);
