-- The options of a queue are one value on their way in, and part of one row on their way out. So a new option changes
-- the table, this type and the view, and the signature of no function.

-- The keys of the JSON object in which create_queue() is given options. NULL: the default.
CREATE TYPE stafette.queue_options AS (
    exclude_own boolean, max_body integer, max_deliveries integer, dead_letter text
);

-- A queue as people see it. How many messages it holds is for those to count who need it.
DROP VIEW stafette.queue_list;
CREATE VIEW stafette.queue_list AS
    SELECT q.id, q.name, coalesce(c.name, 'operator') AS creator, q.created_at, o.name AS owner,
           q.exclude_own, q.max_body, q.max_deliveries, d.name AS dead_letter
    FROM stafette.queues AS q
    LEFT JOIN stafette.clients AS c ON c.id = q.creator_id
    LEFT JOIN stafette.clients AS o ON o.id = q.owner_id
    LEFT JOIN stafette.queues AS d ON d.id = q.dead_letter_id;

-- The same with the number of its ready messages, or of those for the one who asks.
CREATE TYPE stafette.counted_queue AS (queue stafette.queue_list, messages bigint);
