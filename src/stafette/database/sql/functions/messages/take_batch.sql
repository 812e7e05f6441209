-- Removes messages for many asks at once. Plain asks, nearly all of them under load, are answered by one set-based
-- statement: it locks in each queue the number of messages that the asks want, and assigns them in order. The others go
-- one by one. (A loop for all asks gave a quarter of the throughput.)
--
-- Whether anything is addressed to a client is looked up in the statement that takes what is for anyone. Between two
-- statements an addressed message and a later one for anyone could come, and the later would be handed out first.
--
-- `budget` is for the bytes of all messages together. Plain asks whose messages are more than that go one by one, too;
-- an ask that comes when the budget is spent has fault 0: ask again. So the budget is exceeded by one message at most.
-- The fault of an ask is passed on.
CREATE OR REPLACE FUNCTION stafette.take_batch(asks stafette.ask[], budget bigint)
RETURNS TABLE (
    place integer, id bigint, store_id integer, receiver_id integer, sender_id integer, rank smallint,
    deliveries smallint, context bigint, arrived_at timestamptz, expires_at timestamptz, headers jsonb, body bytea,
    fault integer, detail text
)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    ask         stafette.ask;
    places      integer[];      -- of asks that are plain indeed
    tids        tid[];
    ids         bigint[];
    skipped     bigint[];
    all_fit     boolean;
    size        bigint;
    spent       bigint;
    room        bigint;
    missing     integer;
    one_by_one  boolean := false;
BEGIN
    WITH plain AS MATERIALIZED (
        SELECT a.place, a.store_id, a.wanted FROM unnest(asks) AS a
        WHERE a.plain AND a.fault IS NULL
          AND (SELECT own.id FROM stafette.ready AS own
               WHERE own.store_id = a.store_id AND own.receiver_id = a.me LIMIT 1) IS NULL
    )
    SELECT (SELECT array_agg(p.place) FROM plain AS p), array_agg(m.tid), coalesce(sum(m.size), 0)
    INTO places, tids, spent
    FROM (SELECT p.store_id, sum(p.wanted) AS wanted FROM plain AS p GROUP BY p.store_id) AS q
    CROSS JOIN LATERAL (
        SELECT r.ctid AS tid, stafette.message_size(r.headers, r.body) AS size FROM stafette.ready AS r
        WHERE r.store_id = q.store_id AND r.receiver_id = 0
          AND (r.expires_at IS NULL OR r.expires_at > statement_timestamp())
        ORDER BY r.rank, r.id LIMIT q.wanted
        FOR UPDATE SKIP LOCKED
    ) AS m;

    IF spent > budget THEN          -- what stays is locked until the commit; those who ask again are the ones to get it
        one_by_one := true;
        spent := 0;
    ELSIF tids IS NOT NULL THEN
        RETURN QUERY
        WITH taker AS MATERIALIZED (
            SELECT a.place, a.store_id, a.wanted,
                   sum(a.wanted) OVER (PARTITION BY a.store_id ORDER BY a.place) AS up_to
            FROM unnest(asks) AS a WHERE a.place = ANY (places)
        ), deleted AS (
            DELETE FROM stafette.ready AS r WHERE r.ctid = ANY (tids) RETURNING r.*
        ), dealt AS (
            SELECT g.*, row_number() OVER (PARTITION BY g.store_id ORDER BY g.rank, g.id) AS turn FROM deleted AS g
        )
        SELECT p.place, d.id, d.store_id, d.receiver_id, d.sender_id, d.rank, d.deliveries, d.context, d.arrived_at,
               d.expires_at, d.headers, d.body, NULL::integer, NULL::text
        FROM dealt AS d
        JOIN taker AS p ON p.store_id = d.store_id AND d.turn > p.up_to - p.wanted AND d.turn <= p.up_to;
    END IF;

    IF cardinality(places) = cardinality(asks) AND NOT one_by_one THEN
        RETURN;
    END IF;
    FOREACH ask IN ARRAY asks LOOP
        CONTINUE WHEN ask.place = ANY (places) AND NOT one_by_one;
        place := ask.place;
        IF ask.fault IS NOT NULL OR spent >= budget THEN
            fault := coalesce(ask.fault, 0);
            detail := ask.detail;
            RETURN NEXT;
            CONTINUE;
        END IF;
        missing := ask.wanted;
        room := ask.max_bytes;
        skipped := '{}';
        -- First peek, then lock exactly these. Messages that another transaction has locked are skipped, and the peek is
        -- repeated. So a message is never locked without being removed, which would hide it from others for a moment,
        -- and break the order.
        LOOP
            SELECT array_agg(l.tid), array_agg(l.id), bool_and(l.fits) INTO tids, ids, all_fit
            FROM stafette.peek_fitting(ask, missing, skipped, budget - spent, room) AS l;
            EXIT WHEN ids IS NULL;
            IF NOT all_fit THEN     -- not even the first
                IF missing = ask.wanted THEN
                    fault := 101;
                    detail := format('the next message is larger than the %s bytes that the client takes; it stays in'
                                     ' its queue', ask.max_bytes);
                    RETURN NEXT;
                END IF;
                EXIT;
            END IF;

            SELECT coalesce(array_agg(m.tid), '{}'), coalesce(sum(m.size), 0) INTO tids, size
            FROM (
                SELECT r.ctid AS tid, stafette.message_size(r.headers, r.body) AS size FROM stafette.ready AS r
                WHERE r.ctid = ANY (tids) AND r.id = ANY (ids)     -- the id too: a ctid may have been reused
                FOR UPDATE SKIP LOCKED
            ) AS m;
            RETURN QUERY
            DELETE FROM stafette.ready AS deleted WHERE deleted.ctid = ANY (tids)
            RETURNING ask.place, deleted.*, NULL::integer, NULL::text;
            missing := missing - cardinality(tids);
            spent := spent + size;
            room := room - size - 2500 * cardinality(tids);
            EXIT WHEN missing = 0 OR cardinality(tids) = cardinality(ids) OR spent >= budget;
            skipped := skipped || ids;
        END LOOP;
    END LOOP;
END
$$;
