-- A page of a queue's messages in one state that match all given filters, without locks. Ready ones come in the order
-- of their key (receiver, rank, id), the others by id. The next page begins after the place of the last row.
--
-- A page searches 30,000 messages at most, and 64 MiB if bodies are searched. `looked_at` is the number of messages
-- searched up to the row. The last row searched is always returned, even if it does not match; `cut` says that there
-- may be more. Every search is a range of one index, with row values as bounds and in the order of that index. So no
-- other index fits, and wrong statistics cannot mislead the planner. The caller sorts the rows by `looked_at`.
CREATE OR REPLACE FUNCTION stafette.message_page(
    in_queue text, in_state text, from_sender text, to_receiver text, with_context bigint, with_priority integer,
    older_than double precision, newer_than double precision, with_text bytea, after_place bigint[], at_most integer
) RETURNS TABLE (place bigint[], looked_at bigint, matches boolean, cut boolean, message stafette.message_list)
LANGUAGE plpgsql STABLE
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    budget      CONSTANT integer := 30000;
    any_id      CONSTANT bigint := 9223372036854775807;
    target      stafette.queues := stafette.get_queue(in_queue);
    store       integer := CASE WHEN in_state IN ('ready', 'delayed') THEN target.store_id ELSE target.id END;
    sender      integer := stafette.client_of_name(from_sender);
    receiver    integer := CASE to_receiver WHEN '' THEN 0
                                ELSE stafette.client_of_name(to_receiver) END;
    with_rank   integer := 10 - with_priority;
    low         bigint[];
    high        bigint[];
    key         text := 'm.receiver_id, m.rank, m.id';
    source      text;
BEGIN
    IF in_state NOT IN ('ready', 'delayed', 'leased', 'dead') THEN
        PERFORM stafette.raise_fault(100, format('%s is not ready, delayed, leased or dead', in_state));
    ELSIF from_sender IS NOT NULL AND sender IS NULL OR to_receiver IS NOT NULL AND receiver IS NULL THEN
        RETURN;                                                                 -- no such client, so no message
    ELSIF cardinality(after_place) <> (CASE in_state WHEN 'ready' THEN 3 ELSE 1 END) THEN
        PERFORM stafette.raise_fault(100, 'that is not where a page of these messages ended; begin with the first');
    END IF;

    IF in_state = 'ready' THEN
        low := ARRAY[coalesce(receiver, -1), coalesce(CASE WHEN receiver IS NOT NULL THEN with_rank END, -1), 0];
        low := greatest(low, after_place);
        high := ARRAY[coalesce(receiver, 2147483647), coalesce(with_rank, 10), any_id];
        IF with_context IS NOT NULL AND (
            SELECT count(*) FROM (
                SELECT FROM stafette.ready AS r WHERE r.context >= with_context AND r.context <= with_context
                ORDER BY r.context LIMIT budget + 1
            ) AS few
        ) <= budget THEN
            PERFORM set_config('enable_sort', 'on', true);   -- this plan sorts, and a disabled sort distorts all costs
            source := 'SELECT m.* FROM (
                           SELECT * FROM stafette.every_message AS m
                           WHERE m.state = ''ready'' AND m.context >= $1 AND m.context <= $1 ORDER BY m.context
                           LIMIT $2 + 1
                       ) AS m
                       WHERE m.store_id = $3 AND (m.receiver_id, m.rank, m.id) > ($4[1], $4[2], $4[3])
                       ORDER BY m.receiver_id, m.rank, m.id';
        ELSIF sender IS NOT NULL THEN
            source := 'SELECT m.* FROM stafette.every_message AS m
                       WHERE m.state = ''ready''
                         AND (m.sender_id, m.store_id, m.receiver_id, m.rank, m.id) > ($6, $3, $4[1], $4[2], $4[3])
                         AND (m.sender_id, m.store_id, m.receiver_id, m.rank, m.id) <= ($6, $3, $5[1], $5[2], $5[3])
                       ORDER BY m.sender_id, m.store_id, m.receiver_id, m.rank, m.id LIMIT $2';
        ELSIF with_rank IS NOT NULL AND receiver IS NULL THEN     -- the part of each lane that has this rank
            source := 'WITH RECURSIVE lane AS (
                           (SELECT r.receiver_id FROM stafette.ready AS r
                            WHERE (r.store_id, r.receiver_id) >= ($3, $4[1]::integer) AND r.store_id <= $3
                            ORDER BY r.store_id, r.receiver_id LIMIT 1)
                           UNION ALL
                           SELECT further.receiver_id FROM lane CROSS JOIN LATERAL (
                               SELECT r.receiver_id FROM stafette.ready AS r
                               WHERE (r.store_id, r.receiver_id) > ($3, lane.receiver_id) AND r.store_id <= $3
                               ORDER BY r.store_id, r.receiver_id LIMIT 1
                           ) AS further
                       )
                       SELECT m.* FROM lane CROSS JOIN LATERAL (
                           SELECT m.* FROM stafette.every_message AS m
                           WHERE m.state = ''ready''
                             AND (m.store_id, m.receiver_id, m.rank, m.id) > ($3, lane.receiver_id, $7, CASE
                                  WHEN lane.receiver_id = $4[1] THEN $4[3] ELSE 0 END)
                             AND (m.store_id, m.receiver_id, m.rank, m.id) <= ($3, lane.receiver_id, $7, $5[3])
                           ORDER BY m.store_id, m.receiver_id, m.rank, m.id
                       ) AS m LIMIT $2';
        ELSE
            source := 'SELECT m.* FROM stafette.every_message AS m
                       WHERE m.state = ''ready''
                         AND (m.store_id, m.receiver_id, m.rank, m.id) > ($3, $4[1], $4[2], $4[3])
                         AND (m.store_id, m.receiver_id, m.rank, m.id) <= ($3, $5[1], $5[2], $5[3])
                       ORDER BY m.store_id, m.receiver_id, m.rank, m.id LIMIT $2';
        END IF;
    ELSE
        key := 'm.id';
        low := coalesce(after_place, ARRAY[0]);
        IF in_state = 'leased' THEN                                             -- there is no index by queue
            source := 'SELECT m.* FROM stafette.every_message AS m
                       WHERE m.state = ''leased'' AND m.id > $4[1] ORDER BY m.id LIMIT $2';
        ELSE
            source := format('SELECT m.* FROM stafette.every_message AS m
                              WHERE m.state = %L AND (m.store_id, m.id) > ($3, $4[1]) AND m.store_id <= $3
                              ORDER BY m.store_id, m.id LIMIT $2', in_state);
        END IF;
    END IF;

    RETURN QUERY EXECUTE format('
        SELECT ARRAY[%1$s]::bigint[], m.number, m.matches, m.number = $2 OR m.bytes > 67108864, l
        FROM (
            SELECT m.* FROM (
                SELECT m.*, CASE
                    WHEN m.bytes - m.size > 67108864 THEN false
                    ELSE m.store_id = $3 AND ($6 IS NULL OR m.sender_id = $6) AND ($8 IS NULL OR m.receiver_id = $8)
                        AND ($1 IS NULL OR m.context = $1) AND ($7 IS NULL OR m.rank = $7)
                        AND ($9 IS NULL OR m.arrived_at <= now() - $9 * interval ''1 second'')
                        AND ($10 IS NULL OR m.arrived_at >= now() - $10 * interval ''1 second'')
                        AND (m.state <> ''ready'' OR m.expires_at IS NULL OR m.expires_at > now())
                        AND ($11 IS NULL OR position($11 IN m.body) > 0)
                        AND (m.receiver_id = 0 OR stafette.is_held($13, m.receiver_id))
                    END IS TRUE AS matches
                FROM (
                    SELECT m.*, row_number() OVER so_far AS number, lead(m.id) OVER so_far AS next_id,
                           sum(m.size) OVER so_far AS bytes
                    FROM (
                        SELECT m.state, m.id, m.store_id, m.receiver_id, m.rank, m.sender_id, m.context, m.arrived_at,
                               m.expires_at, CASE WHEN $11 IS NOT NULL THEN m.body END AS body,
                               CASE WHEN $11 IS NOT NULL THEN octet_length(m.body) ELSE 0 END AS size
                        FROM (%2$s) AS m
                    ) AS m
                    WINDOW so_far AS (ROWS UNBOUNDED PRECEDING)
                ) AS m
            ) AS m
            WHERE m.matches OR m.next_id IS NULL OR m.bytes > 67108864
            LIMIT $12
        ) AS m
        LEFT JOIN stafette.message_list AS l ON l.state = %3$L AND l.store_id = m.store_id
            AND l.receiver_id = m.receiver_id AND l.rank = m.rank AND l.id = m.id', key, source, in_state)
    USING with_context, budget, store, low, high, sender, with_rank, receiver, older_than, newer_than, with_text,
          at_most, target.id;
END
$$;
