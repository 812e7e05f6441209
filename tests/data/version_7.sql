-- A database as commit 09056b9 (schema version 7) left it: `pg_dump --no-owner --inserts` of a system with clients, queues
-- of every option, messages in every state, leases, keys, a session and a role old_app that may use the SQL API. Some
-- messages are what version 7 let in from SQL and nobody could read: headers that are no texts, times beyond year 9999.
-- Comments, settings and the bodies of functions are left out: a migration replaces every function, or drops it.
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
CREATE SCHEMA stafette;
CREATE TYPE stafette.answer AS (
	place integer,
	fault integer,
	detail text,
	id bigint,
	queue text,
	sender text,
	receiver text,
	context bigint,
	priority integer,
	arrived_at timestamp with time zone,
	deliveries integer,
	headers jsonb,
	body bytea,
	token bigint
);
CREATE TYPE stafette.answered_part AS (
	place bigint,
	request integer,
	id bigint,
	fault integer,
	detail text,
	sender_id integer,
	key text,
	fingerprint text,
	stored boolean
);
CREATE TYPE stafette.ask AS (
	place integer,
	me integer,
	queue_id integer,
	sender_id integer,
	context bigint,
	by_arrival boolean,
	wanted integer,
	plain boolean,
	fault integer,
	detail text
);
CREATE TABLE stafette.clients (
    id integer NOT NULL,
    name text NOT NULL,
    mode text DEFAULT 'full'::text NOT NULL,
    secret text,
    registered_at timestamp with time zone,
    last_seen_at timestamp with time zone,
    CONSTRAINT clients_mode_check CHECK ((mode = ANY (ARRAY['full'::text, 'read-only'::text]))),
    CONSTRAINT clients_name_check CHECK ((name ~ '^[^[:cntrl:]]{1,200}$'::text))
);
CREATE TABLE stafette.queues (
    id integer NOT NULL,
    name text NOT NULL,
    creator_id integer,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    owner_id integer,
    exclude_own boolean DEFAULT false NOT NULL,
    max_body integer DEFAULT 1048576 NOT NULL,
    max_deliveries smallint DEFAULT 5 NOT NULL,
    dead_letter_id integer,
    CONSTRAINT queues_check CHECK (((name ~~ '@%'::text) = (owner_id IS NOT NULL))),
    CONSTRAINT queues_check1 CHECK ((dead_letter_id <> id)),
    CONSTRAINT queues_max_body_check CHECK (((max_body >= 0) AND (max_body <= 67108864))),
    CONSTRAINT queues_max_deliveries_check CHECK ((max_deliveries >= 1)),
    CONSTRAINT queues_name_check CHECK ((name ~ '^[^[:cntrl:]]{1,201}$'::text))
);
CREATE VIEW stafette.queue_list AS
 SELECT q.id,
    q.name,
    COALESCE(c.name, 'operator'::text) AS creator,
    q.created_at,
    o.name AS owner,
    q.exclude_own,
    q.max_body,
    q.max_deliveries,
    d.name AS dead_letter
   FROM (((stafette.queues q
     LEFT JOIN stafette.clients c ON ((c.id = q.creator_id)))
     LEFT JOIN stafette.clients o ON ((o.id = q.owner_id)))
     LEFT JOIN stafette.queues d ON ((d.id = q.dead_letter_id)));
CREATE TYPE stafette.counted_queue AS (
	queue stafette.queue_list,
	messages bigint
);
CREATE TYPE stafette.queue_options AS (
	exclude_own boolean,
	max_body integer,
	max_deliveries integer,
	dead_letter text
);
CREATE FUNCTION stafette.ack_batch(ids bigint[], tokens bigint[]) RETURNS SETOF integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.add_history(sent bigint, received bigint, failed bigint, refused bigint, requests bigint, batches bigint, queue_seconds double precision, database_seconds double precision) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.announce_interests(broker integer, queues text[]) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE TABLE stafette.audit (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    role text NOT NULL,
    address text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    detail text NOT NULL
);
CREATE FUNCTION stafette.audit_lines(before_id bigint, at_most integer) RETURNS SETOF stafette.audit
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.broker_sessions(broker integer) RETURNS TABLE(client integer, token bigint)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.browse(viewer integer, in_queue text, after_id bigint, at_most integer) RETURNS SETOF stafette.answer
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS '';
CREATE FUNCTION stafette.claim_operator(actor text, origin text, who text, hashed text) RETURNS boolean
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.client_details(client_name text) RETURNS TABLE(id integer, name text, mode text, registered_at timestamp with time zone, last_seen_at timestamp with time zone, broker text, online_since timestamp with time zone, has_secret boolean, personal_queue text, sent jsonb, waiting jsonb)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS '';
CREATE TABLE stafette.dead (
    id bigint NOT NULL,
    queue_id integer NOT NULL,
    receiver_id integer NOT NULL,
    sender_id integer NOT NULL,
    rank smallint NOT NULL,
    deliveries smallint NOT NULL,
    context bigint,
    arrived_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    headers jsonb,
    body bytea NOT NULL,
    died_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT ready_deliveries_check CHECK ((deliveries >= 0)),
    CONSTRAINT ready_headers_check CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT ready_rank_check CHECK (((rank >= 0) AND (rank <= 9)))
);
CREATE TABLE stafette.delayed (
    id bigint NOT NULL,
    queue_id integer NOT NULL,
    receiver_id integer NOT NULL,
    sender_id integer NOT NULL,
    rank smallint NOT NULL,
    deliveries smallint NOT NULL,
    context bigint,
    arrived_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    headers jsonb,
    body bytea NOT NULL,
    due_at timestamp with time zone NOT NULL,
    CONSTRAINT ready_deliveries_check CHECK ((deliveries >= 0)),
    CONSTRAINT ready_headers_check CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT ready_rank_check CHECK (((rank >= 0) AND (rank <= 9)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE stafette.leased (
    id bigint NOT NULL,
    queue_id integer NOT NULL,
    receiver_id integer NOT NULL,
    sender_id integer NOT NULL,
    rank smallint NOT NULL,
    deliveries smallint NOT NULL,
    context bigint,
    arrived_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    headers jsonb,
    body bytea NOT NULL,
    token bigint NOT NULL,
    holder_id integer NOT NULL,
    leased_until timestamp with time zone NOT NULL,
    CONSTRAINT ready_deliveries_check CHECK ((deliveries >= 0)),
    CONSTRAINT ready_headers_check CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT ready_rank_check CHECK (((rank >= 0) AND (rank <= 9)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE stafette.ready (
    id bigint NOT NULL,
    queue_id integer NOT NULL,
    receiver_id integer NOT NULL,
    sender_id integer NOT NULL,
    rank smallint NOT NULL,
    deliveries smallint NOT NULL,
    context bigint,
    arrived_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    headers jsonb,
    body bytea NOT NULL,
    CONSTRAINT ready_deliveries_check CHECK ((deliveries >= 0)),
    CONSTRAINT ready_headers_check CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT ready_rank_check CHECK (((rank >= 0) AND (rank <= 9)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_insert_scale_factor='0.5', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0.2', autovacuum_analyze_threshold='10000');
CREATE VIEW stafette.every_message AS
 SELECT 'ready'::text AS state,
    m.id,
    m.queue_id,
    m.receiver_id,
    m.sender_id,
    m.rank,
    m.deliveries,
    m.context,
    m.arrived_at,
    m.expires_at,
    m.headers,
    m.body,
    NULL::timestamp with time zone AS due_at,
    NULL::timestamp with time zone AS leased_until,
    NULL::integer AS holder_id,
    NULL::timestamp with time zone AS died_at
   FROM stafette.ready m
UNION ALL
 SELECT 'delayed'::text AS state,
    m.id,
    m.queue_id,
    m.receiver_id,
    m.sender_id,
    m.rank,
    m.deliveries,
    m.context,
    m.arrived_at,
    m.expires_at,
    m.headers,
    m.body,
    m.due_at,
    NULL::timestamp with time zone AS leased_until,
    NULL::integer AS holder_id,
    NULL::timestamp with time zone AS died_at
   FROM stafette.delayed m
UNION ALL
 SELECT 'leased'::text AS state,
    m.id,
    m.queue_id,
    m.receiver_id,
    m.sender_id,
    m.rank,
    m.deliveries,
    m.context,
    m.arrived_at,
    m.expires_at,
    m.headers,
    m.body,
    NULL::timestamp with time zone AS due_at,
    m.leased_until,
    m.holder_id,
    NULL::timestamp with time zone AS died_at
   FROM stafette.leased m
UNION ALL
 SELECT 'dead'::text AS state,
    m.id,
    m.queue_id,
    m.receiver_id,
    m.sender_id,
    m.rank,
    m.deliveries,
    m.context,
    m.arrived_at,
    m.expires_at,
    m.headers,
    m.body,
    NULL::timestamp with time zone AS due_at,
    NULL::timestamp with time zone AS leased_until,
    NULL::integer AS holder_id,
    m.died_at
   FROM stafette.dead m;
CREATE VIEW stafette.message_list AS
 SELECT m.id,
    q.name AS queue,
    m.state,
    s.name AS sender,
    v.name AS receiver,
    m.context,
    (10 - m.rank) AS priority,
    m.arrived_at,
    (m.deliveries)::integer AS deliveries,
    octet_length(m.body) AS size,
    m.headers,
    m.due_at,
    m.leased_until,
    h.name AS holder,
    m.died_at,
    m.expires_at,
    SUBSTRING(m.body FROM 1 FOR 120) AS preview,
    m.queue_id,
    m.receiver_id,
    m.rank
   FROM ((((stafette.every_message m
     JOIN stafette.queues q ON ((q.id = m.queue_id)))
     JOIN stafette.clients s ON ((s.id = m.sender_id)))
     LEFT JOIN stafette.clients v ON ((v.id = m.receiver_id)))
     LEFT JOIN stafette.clients h ON ((h.id = m.holder_id)));
CREATE FUNCTION stafette.client_message_page(client_name text, which text, after_place bigint[], at_most integer) RETURNS TABLE(place bigint[], message stafette.message_list)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS '';
CREATE FUNCTION stafette.client_page(part text, are_online boolean, after_name text, at_most integer) RETURNS TABLE(id integer, name text, mode text, registered_at timestamp with time zone, last_seen_at timestamp with time zone, broker text, online_since timestamp with time zone, has_secret boolean)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.close_operator_session(token bytea) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.count_all_messages(pause double precision, force boolean DEFAULT false) RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_nestloop TO 'off'
    AS '';
CREATE FUNCTION stafette.count_messages(queue text) RETURNS TABLE(ready bigint, delayed bigint, leased bigint, dead bigint)
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.create_queue(client integer, queue text, options jsonb DEFAULT '{}'::jsonb, exist_ok boolean DEFAULT false) RETURNS SETOF stafette.counted_queue
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.create_queue_as_operator(actor text, origin text, queue text, options jsonb) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.create_queue_unchecked(creator integer, queue text, options jsonb, exist_ok boolean) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.delete_client(by_client integer, client_name text) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.delete_client_as_operator(actor text, origin text, client_name text) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.delete_dead(actor text, origin text, queue text) RETURNS bigint
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.delete_queue(client integer, queue text, force boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.delete_queue_as_operator(actor text, origin text, queue text, force boolean) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.delete_queue_unchecked(queue text, force boolean) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.depths_of_queue(queue text, since timestamp with time zone) RETURNS TABLE(at timestamp with time zone, messages bigint)
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.disconnect_client(actor text, origin text, client_name text) RETURNS boolean
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.drain_broker(actor text, origin text, broker integer) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.drop_expired(at_most integer) RETURNS bigint
    LANGUAGE sql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.expire_leases(at_most integer) RETURNS TABLE(queue text, messages bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.extend_batch(ids bigint[], tokens bigint[], seconds double precision[]) RETURNS SETOF integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.faults(asks stafette.ask[]) RETURNS SETOF stafette.answer
    LANGUAGE sql IMMUTABLE
    AS '';
CREATE TABLE stafette.brokers (
    id integer NOT NULL,
    name text NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    alive_until timestamp with time zone NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE stafette.sessions (
    client_id integer NOT NULL,
    broker_id integer NOT NULL,
    token bigint NOT NULL,
    since timestamp with time zone DEFAULT now() NOT NULL
);
CREATE VIEW stafette.client_list AS
 SELECT c.id,
    c.name,
    c.mode,
    c.registered_at,
    c.last_seen_at,
    b.name AS broker
   FROM ((stafette.clients c
     LEFT JOIN stafette.sessions s ON ((s.client_id = c.id)))
     LEFT JOIN stafette.brokers b ON (((b.id = s.broker_id) AND (b.alive_until > now()))))
  WHERE (c.registered_at IS NOT NULL);
CREATE FUNCTION stafette.find_client(client_name text) RETURNS SETOF stafette.client_list
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.find_in_ready(in_queue integer, message_id bigint) RETURNS TABLE(queue_id integer, receiver_id integer, rank smallint)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS '';
CREATE FUNCTION stafette.find_message(in_queue text, message_id bigint) RETURNS TABLE(message stafette.message_list, body bytea)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.find_queue(queue_name text, queue_id integer DEFAULT NULL::integer) RETURNS SETOF stafette.counted_queue
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.forget_history(at_most integer) RETURNS bigint
    LANGUAGE sql
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.forget_keys(at_most integer) RETURNS bigint
    LANGUAGE sql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.get_queue(queue text) RETURNS stafette.queues
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.give_back(ids bigint[], delays double precision[]) RETURNS TABLE(id bigint, queue text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.held_messages(holder integer, at_most integer) RETURNS SETOF stafette.message_list
    LANGUAGE sql STABLE
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.history_points(since timestamp with time zone, seconds integer) RETURNS TABLE(at timestamp with time zone, span integer, sent bigint, received bigint, failed bigint, refused bigint, requests bigint, batches bigint, queue_seconds double precision, database_seconds double precision, ready bigint, delayed bigint, leased bigint, dead bigint, online bigint)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.interests_elsewhere(asking_broker integer) RETURNS TABLE(queue text, broker integer)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.join_broker(broker_name text, seconds double precision) RETURNS integer
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.last_message_counts() RETURNS TABLE(at timestamp with time zone, seconds double precision, ready bigint, delayed bigint, leased bigint, dead bigint, oldest_at timestamp with time zone, clients bigint, online bigint, brokers bigint, queues bigint)
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.lease_batch(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[], seconds double precision[]) RETURNS SETOF stafette.answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS '';
CREATE FUNCTION stafette.leave_broker(broker integer) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.list_brokers() RETURNS TABLE(id integer, name text, started_at timestamp with time zone, alive_until timestamp with time zone, alive boolean, clients bigint, figures jsonb, figures_at timestamp with time zone)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.list_clients(after_name text DEFAULT ''::text, at_most integer DEFAULT NULL::integer) RETURNS SETOF stafette.client_list
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.list_queues(after_name text DEFAULT ''::text, at_most integer DEFAULT NULL::integer) RETURNS SETOF stafette.counted_queue
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.lock_catalog(exclusive boolean DEFAULT false) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.lock_leases(ids bigint[], tokens bigint[]) RETURNS TABLE(id bigint, place integer)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.may_change(client integer) RETURNS void
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.message_page(in_queue text, in_state text, from_sender text, to_receiver text, with_context bigint, with_priority integer, older_than double precision, newer_than double precision, with_text bytea, after_place bigint[], at_most integer) RETURNS TABLE(place bigint[], looked_at bigint, matches boolean, cut boolean, message stafette.message_list)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS '';
CREATE FUNCTION stafette.nack_batch(ids bigint[], tokens bigint[], delays double precision[]) RETURNS TABLE(place integer, queue text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.name_of_client(client integer) RETURNS text
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.name_of_queue(queue integer) RETURNS text
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.notify_brokers(brokers integer[], queues text[]) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.open_operator_session(actor text, origin text, seconds double precision, token bytea) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.operator_secret(who text) RETURNS text
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.operator_session(token bytea) RETURNS text
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.overview() RETURNS TABLE(clients bigint, online bigint, brokers bigint, queues bigint, ready bigint, delayed bigint, leased bigint, dead bigint)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.peek_batch(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[]) RETURNS SETOF stafette.answer
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS '';
CREATE FUNCTION stafette.peek_next(reader integer, in_queue integer, from_sender integer, with_context bigint, by_arrival boolean, wanted integer, skipped bigint[] DEFAULT '{}'::bigint[]) RETURNS TABLE(tid tid, id bigint)
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.personal_queue(client_name text) RETURNS SETOF stafette.counted_queue
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.promote_delayed(at_most integer) RETURNS TABLE(queue text, messages bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.publish_metrics(broker integer, metrics jsonb) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.purge(client integer, queue text) RETURNS bigint
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.purge_as_operator(actor text, origin text, queue text) RETURNS bigint
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.purge_unchecked(queue text) RETURNS bigint
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.queue_details(queue_name text) RETURNS TABLE(queue stafette.queue_list, ready bigint, delayed bigint, leased bigint, dead bigint, oldest_at timestamp with time zone, exact boolean, counted_at timestamp with time zone, top_senders jsonb, top_receivers jsonb)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS '';
CREATE FUNCTION stafette.queue_lengths() RETURNS TABLE(queue text, messages bigint)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.queue_page(part text, sorted_by text, are_personal boolean, after_key bigint, after_name text, at_most integer) RETURNS TABLE(queue stafette.queue_list, sort_key bigint, ready bigint, delayed bigint, leased bigint, dead bigint, oldest_at timestamp with time zone)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.raise_fault(fault integer, detail text) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.read_queue_options(options jsonb) RETURNS stafette.queue_options
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.receive(client text, queue text DEFAULT NULL::text, sender text DEFAULT NULL::text, context bigint DEFAULT NULL::bigint, by_arrival boolean DEFAULT false, wanted integer DEFAULT 1) RETURNS TABLE(id bigint, queue_name text, sender_name text, receiver_name text, message_context bigint, priority integer, arrived_at timestamp with time zone, deliveries integer, headers jsonb, body bytea)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS '';
CREATE FUNCTION stafette.receive_batch(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[]) RETURNS SETOF stafette.answer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS '';
CREATE FUNCTION stafette.record_action(actor text, origin text, action text, subject text, detail text) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.redrive(actor text, origin text, queue text) RETURNS bigint
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.register(client_name text, client_mode text, client_secret text) RETURNS TABLE(id integer, name text, mode text, secret text)
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.release_sessions(clients integer[], tokens bigint[]) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.renew_broker(broker integer, seconds double precision) RETURNS boolean
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.resolve_asks(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[], removing boolean) RETURNS stafette.ask[]
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.search_messages(number bigint, at_most integer) RETURNS SETOF stafette.message_list
    LANGUAGE sql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_hashjoin TO 'off'
    SET enable_mergejoin TO 'off'
    SET plan_cache_mode TO 'force_custom_plan'
    AS '';
CREATE FUNCTION stafette.search_names(part text, at_most integer) RETURNS TABLE(kind text, name text)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.send(sender text, queue text, body bytea, receiver text DEFAULT NULL::text, priority integer DEFAULT 5, context bigint DEFAULT NULL::bigint, headers jsonb DEFAULT NULL::jsonb, delay double precision DEFAULT NULL::double precision, ttl double precision DEFAULT NULL::double precision, key text DEFAULT NULL::text, allow_unknown boolean DEFAULT false) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS '';
CREATE FUNCTION stafette.send_batch(requests integer[], senders integer[], queues text[], receivers text[], priorities smallint[], contexts bigint[], headers jsonb[], bodies bytea[], delays double precision[], ttls double precision[], keys text[], allow_unknown boolean[]) RETURNS TABLE(request integer, id bigint, fault integer, detail text)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS '';
CREATE FUNCTION stafette.send_to_all(sender text, queues text[], body bytea, receiver text DEFAULT NULL::text, priority integer DEFAULT 5, context bigint DEFAULT NULL::bigint, headers jsonb DEFAULT NULL::jsonb, delay double precision DEFAULT NULL::double precision, ttl double precision DEFAULT NULL::double precision, key text DEFAULT NULL::text, allow_unknown boolean DEFAULT false) RETURNS bigint[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS '';
CREATE FUNCTION stafette.set_operator_secret(actor text, origin text, who text, hashed text) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.set_secret(actor text, origin text, client_name text, client_secret text) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.sql_client(client_name text) RETURNS integer
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.statistics() RETURNS TABLE(commits bigint, rollbacks bigint, blocks_read bigint, blocks_hit bigint, rows_inserted bigint, rows_deleted bigint, deadlocks bigint, wal_bytes bigint, dead_rows bigint, connections bigint, active bigint)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.take(reader integer, in_queue integer, from_sender integer, with_context bigint, by_arrival boolean, wanted integer) RETURNS SETOF stafette.ready
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.take_batch(asks stafette.ask[]) RETURNS TABLE(place integer, id bigint, queue_id integer, receiver_id integer, sender_id integer, rank smallint, deliveries smallint, context bigint, arrived_at timestamp with time zone, expires_at timestamp with time zone, headers jsonb, body bytea)
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.take_sessions(clients integer[], tokens bigint[], broker integer, resumed bigint[]) RETURNS TABLE(place integer, token bigint)
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.waiting_queues(client integer, at_most integer DEFAULT NULL::integer) RETURNS SETOF stafette.counted_queue
    LANGUAGE sql STABLE
    SET enable_seqscan TO 'off'
    AS '';
ALTER TABLE stafette.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stafette.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE UNLOGGED TABLE stafette.broker_figures (
    broker_id integer NOT NULL,
    at timestamp with time zone NOT NULL,
    figures jsonb NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE stafette.brokers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stafette.brokers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE stafette.clients ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stafette.clients_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stafette.history (
    span integer NOT NULL,
    at timestamp with time zone NOT NULL,
    sent bigint DEFAULT 0 NOT NULL,
    received bigint DEFAULT 0 NOT NULL,
    failed bigint DEFAULT 0 NOT NULL,
    refused bigint DEFAULT 0 NOT NULL,
    requests bigint DEFAULT 0 NOT NULL,
    batches bigint DEFAULT 0 NOT NULL,
    queue_seconds double precision DEFAULT 0 NOT NULL,
    database_seconds double precision DEFAULT 0 NOT NULL,
    ready bigint,
    delayed bigint,
    leased bigint,
    dead bigint,
    online bigint,
    CONSTRAINT history_span_check CHECK ((span = ANY (ARRAY[10, 300])))
);
CREATE TABLE stafette.keys (
    sender_id integer NOT NULL,
    key text NOT NULL,
    fingerprint text NOT NULL,
    ids bigint[] NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT keys_key_check CHECK (((length(key) >= 1) AND (length(key) <= 200)))
);
CREATE SEQUENCE stafette.lease_token
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE stafette.message_counts (
    one_row boolean DEFAULT true NOT NULL,
    at timestamp with time zone NOT NULL,
    seconds double precision NOT NULL,
    ready bigint NOT NULL,
    delayed bigint NOT NULL,
    leased bigint NOT NULL,
    dead bigint NOT NULL,
    oldest_at timestamp with time zone,
    CONSTRAINT stock_one_row_check CHECK (one_row)
)
WITH (fillfactor='50');
CREATE SEQUENCE stafette.message_id
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE stafette.operator_sessions (
    token_hash bytea NOT NULL,
    role text NOT NULL,
    ends_at timestamp with time zone NOT NULL,
    CONSTRAINT operator_sessions_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'viewer'::text])))
);
CREATE TABLE stafette.operators (
    role text NOT NULL,
    secret text NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT operators_role_check CHECK ((role = ANY (ARRAY['admin'::text, 'viewer'::text])))
);
CREATE UNLOGGED TABLE stafette.parked (
    queue_id integer NOT NULL,
    broker_id integer NOT NULL
);
CREATE TABLE stafette.queue_depths (
    queue_id integer NOT NULL,
    at timestamp with time zone NOT NULL,
    messages bigint NOT NULL
);
CREATE TABLE stafette.queue_message_counts (
    queue_id integer NOT NULL,
    ready bigint NOT NULL,
    delayed bigint NOT NULL,
    leased bigint NOT NULL,
    dead bigint NOT NULL,
    oldest_at timestamp with time zone
)
WITH (fillfactor='50');
ALTER TABLE stafette.queues ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME stafette.queues_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE stafette.schema_state (
    one_row boolean DEFAULT true NOT NULL,
    version integer NOT NULL,
    functions text NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT schema_state_one_row_check CHECK (one_row)
);
INSERT INTO stafette.audit OVERRIDING SYSTEM VALUE VALUES
	(1, '2026-11-19 21:30:49.924744+00', 'admin', '127.0.0.1', 'create queue', 'by an operator', ''),
	(2, '2026-11-19 21:30:49.927407+00', 'admin', '127.0.0.1', 'set operator secret', 'admin', '');
INSERT INTO stafette.brokers OVERRIDING SYSTEM VALUE VALUES
	(1, 'old broker', '2026-11-19 21:30:49.916618+00', '2026-11-19 21:30:59.916618+00');
INSERT INTO stafette.clients OVERRIDING SYSTEM VALUE VALUES
	(2, 'bob', 'full', 'scrypt$bob', '2026-11-19 21:30:49.885038+00', '2026-11-19 21:30:49.885038+00'),
	(3, 'carol', 'read-only', NULL, '2026-11-19 21:30:49.885328+00', '2026-11-19 21:30:49.885328+00'),
	(4, 'dave', 'full', NULL, NULL, NULL),
	(1, 'alice', 'full', NULL, '2026-11-19 21:30:49.881085+00', '2026-11-19 21:30:49.917072+00');
INSERT INTO stafette.dead VALUES
	(18, 7, 2, 1, 5, 1, NULL, '2026-11-19 21:30:49.913866+00', NULL, NULL, '\x6469656420666f7220626f62', '2026-11-19 21:30:49.914518+00'),
	(19, 7, 0, 1, 5, 1, NULL, '2026-11-19 21:30:49.91473+00', NULL, '{"n": 1, "big": 100000000000000000000000, "yes": true, "huge": 10000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000, "list": ["a"], "null": null, "text": "t", "nested": {"a": {"b": 2}}}', '\x646965642077697468206f64642068656164657273', '2026-11-19 21:30:49.915661+00'),
	(17, 7, 0, 1, 5, 1, NULL, '2026-11-19 21:30:49.911701+00', '2026-11-19 21:30:49.915873+00', NULL, '\x6469656420616e642065787069726564', '2026-11-19 21:30:49.912363+00');
INSERT INTO stafette.delayed VALUES
	(8, 5, 0, 1, 7, 0, NULL, '2026-11-19 21:30:49.898944+00', NULL, NULL, '\x736f6f6e', '2026-11-19 21:31:49.898944+00'),
	(11, 5, 0, 1, 6, 0, NULL, '2026-11-19 21:30:49.904691+00', NULL, '{"n": 1, "big": 100000000000000000000000, "yes": true, "huge": 10000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000, "list": ["a"], "null": null, "text": "t", "nested": {"a": {"b": 2}}}', '\x6e6576657220647565', '33715-08-16 23:17:29.904691+00');
INSERT INTO stafette.history VALUES
	(10, '2026-11-19 21:30:40+00', 0, 0, 0, 0, 0, 0, 0, 0, 9, 2, 5, 3, 1),
	(300, '2026-11-19 21:30:00+00', 0, 0, 0, 0, 0, 0, 0, 0, 9, 2, 5, 3, 1);
INSERT INTO stafette.keys VALUES
	(1, 'once', 'a861c79c20d1e2b0bbfdd8c9905d0e35', '{6}', '2116-11-19 21:30:49.916125+00'),
	(1, 'forgotten', 'c170b042e9e0a7649631dbfdf97070fc', '{7}', '2026-11-19 21:30:49.916391+00');
INSERT INTO stafette.leased VALUES
	(14, 8, 0, 1, 5, 1, NULL, '2026-11-19 21:30:49.909132+00', NULL, NULL, '\x6c656173652072616e206f7574', 3, 1, '2026-11-19 21:30:50.909445+00'),
	(15, 8, 0, 1, 5, 1, NULL, '2026-11-19 21:30:49.909745+00', NULL, NULL, '\x6c65617365207468617420626567616e20696e207468652070617374', 4, 1, '2026-11-19 21:30:44.909989+00'),
	(12, 8, 0, 1, 5, 1, NULL, '2026-11-19 21:30:49.905552+00', NULL, '{"a": "b"}', '\x68656c64', 1, 2, 'infinity'),
	(13, 8, 0, 1, 5, 1, NULL, '2026-11-19 21:30:49.908126+00', NULL, '{"n": 1, "big": 100000000000000000000000, "yes": true, "huge": 10000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000, "list": ["a"], "null": null, "text": "t", "nested": {"a": {"b": 2}}}', '\x68656c642077697468206f64642068656164657273', 2, 1, '2100-01-01 00:00:00+00'),
	(16, 6, 1, 2, 5, 1, NULL, '2026-11-19 21:30:49.910275+00', NULL, NULL, '\x6c6173742064656c6976657279', 5, 1, '2100-01-01 00:00:00+00');
INSERT INTO stafette.message_counts VALUES
	(true, '2026-11-19 21:30:49.918532+00', 0.002376, 9, 2, 5, 3, '2026-11-19 21:30:49.894104+00');
INSERT INTO stafette.operators VALUES
	('admin', 'scrypt$admin', '2026-11-19 21:30:49.926958+00');
INSERT INTO stafette.parked VALUES
	(0, 1);
INSERT INTO stafette.queue_depths VALUES
	(5, '2026-11-19 21:30:00+00', 8),
	(2, '2026-11-19 21:30:00+00', 1),
	(6, '2026-11-19 21:30:00+00', 0),
	(7, '2026-11-19 21:30:00+00', 0),
	(8, '2026-11-19 21:30:00+00', 0);
INSERT INTO stafette.queue_message_counts VALUES
	(2, 1, 0, 0, 0, '2026-11-19 21:30:49.896845+00'),
	(5, 8, 2, 0, 0, '2026-11-19 21:30:49.894104+00'),
	(6, 0, 0, 1, 0, NULL),
	(7, 0, 0, 0, 3, NULL),
	(8, 0, 0, 4, 0, NULL);
INSERT INTO stafette.queues OVERRIDING SYSTEM VALUE VALUES
	(1, '@alice', 1, '2026-11-19 21:30:49.881085+00', 1, false, 1048576, 5, NULL),
	(2, '@bob', 2, '2026-11-19 21:30:49.885038+00', 2, false, 1048576, 5, NULL),
	(3, '@carol', 3, '2026-11-19 21:30:49.885328+00', 3, false, 1048576, 5, NULL),
	(4, 'dead letters', 1, '2026-11-19 21:30:49.885561+00', NULL, false, 1048576, 5, NULL),
	(5, 'plain', 1, '2026-11-19 21:30:49.887939+00', NULL, false, 1048576, 5, NULL),
	(6, 'options', 1, '2026-11-19 21:30:49.88822+00', NULL, true, 1000, 1, 4),
	(7, 'dying', 1, '2026-11-19 21:30:49.888672+00', NULL, false, 1048576, 1, NULL),
	(8, 'work', 1, '2026-11-19 21:30:49.90513+00', NULL, false, 1048576, 3, NULL),
	(9, 'by an operator', NULL, '2026-11-19 21:30:49.924143+00', NULL, false, 1048576, 5, NULL);
INSERT INTO stafette.ready VALUES
	(1, 5, 0, 1, 0, 0, 7, '2026-11-19 21:30:49.894104+00', NULL, '{"kind": "sale", "naïve": "ja"}', '\x6669727374'),
	(2, 5, 0, 1, 9, 0, NULL, '2026-11-19 21:30:49.896845+00', NULL, NULL, '\x7477696365'),
	(3, 2, 2, 1, 9, 0, NULL, '2026-11-19 21:30:49.896845+00', NULL, NULL, '\x7477696365'),
	(4, 5, 2, 1, 5, 0, NULL, '2026-11-19 21:30:49.897236+00', NULL, NULL, '\x666f7220626f62'),
	(5, 5, 4, 1, 5, 0, NULL, '2026-11-19 21:30:49.897521+00', NULL, NULL, '\x666f722064617665'),
	(6, 5, 0, 1, 5, 0, NULL, '2026-11-19 21:30:49.897958+00', NULL, NULL, '\x6f6e6365'),
	(7, 5, 0, 1, 5, 0, NULL, '2026-11-19 21:30:49.89856+00', NULL, NULL, '\x666f72676f7474656e'),
	(9, 5, 0, 1, 6, 0, NULL, '2026-11-19 21:30:49.899362+00', NULL, '{"n": 1, "big": 100000000000000000000000, "yes": true, "huge": 10000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000, "list": ["a"], "null": null, "text": "t", "nested": {"a": {"b": 2}}}', '\x6f64642068656164657273'),
	(10, 5, 0, 1, 6, 0, NULL, '2026-11-19 21:30:49.904266+00', '33715-08-16 23:17:29.904266+00', NULL, '\x6c6976657320666f722065766572');
INSERT INTO stafette.schema_state VALUES
	(true, 7, '3d3ddf2081c8bdcfeda7856ee4d054946078a386b6ce713aa345304ed494432d', '2026-11-19 21:30:49.823055+00');
INSERT INTO stafette.sessions VALUES
	(1, 1, 5690438447519344566, '2026-11-19 21:30:49.917072+00');
SELECT pg_catalog.setval('stafette.audit_id_seq', 2, true);
SELECT pg_catalog.setval('stafette.brokers_id_seq', 1, true);
SELECT pg_catalog.setval('stafette.clients_id_seq', 4, true);
SELECT pg_catalog.setval('stafette.lease_token', 8, true);
SELECT pg_catalog.setval('stafette.message_id', 19, true);
SELECT pg_catalog.setval('stafette.queues_id_seq', 9, true);
ALTER TABLE ONLY stafette.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stafette.broker_figures
    ADD CONSTRAINT broker_figures_pkey PRIMARY KEY (broker_id);
ALTER TABLE ONLY stafette.brokers
    ADD CONSTRAINT brokers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stafette.clients
    ADD CONSTRAINT clients_name_key UNIQUE (name);
ALTER TABLE ONLY stafette.clients
    ADD CONSTRAINT clients_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stafette.dead
    ADD CONSTRAINT dead_pkey PRIMARY KEY (queue_id, id);
ALTER TABLE ONLY stafette.delayed
    ADD CONSTRAINT delayed_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stafette.history
    ADD CONSTRAINT history_pkey PRIMARY KEY (span, at);
ALTER TABLE ONLY stafette.keys
    ADD CONSTRAINT keys_pkey PRIMARY KEY (sender_id, key);
ALTER TABLE ONLY stafette.leased
    ADD CONSTRAINT leased_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stafette.operator_sessions
    ADD CONSTRAINT operator_sessions_pkey PRIMARY KEY (token_hash);
ALTER TABLE ONLY stafette.operators
    ADD CONSTRAINT operators_pkey PRIMARY KEY (role);
ALTER TABLE ONLY stafette.parked
    ADD CONSTRAINT parked_pkey PRIMARY KEY (queue_id, broker_id);
ALTER TABLE ONLY stafette.queue_depths
    ADD CONSTRAINT queue_depths_pkey PRIMARY KEY (queue_id, at);
ALTER TABLE ONLY stafette.queues
    ADD CONSTRAINT queues_name_key UNIQUE (name);
ALTER TABLE ONLY stafette.queues
    ADD CONSTRAINT queues_owner_id_key UNIQUE (owner_id);
ALTER TABLE ONLY stafette.queues
    ADD CONSTRAINT queues_pkey PRIMARY KEY (id);
ALTER TABLE ONLY stafette.ready
    ADD CONSTRAINT ready_pkey PRIMARY KEY (queue_id, receiver_id, rank, id);
ALTER TABLE ONLY stafette.schema_state
    ADD CONSTRAINT schema_state_pkey PRIMARY KEY (one_row);
ALTER TABLE ONLY stafette.sessions
    ADD CONSTRAINT sessions_pkey PRIMARY KEY (client_id);
ALTER TABLE ONLY stafette.queue_message_counts
    ADD CONSTRAINT stock_of_queues_pkey PRIMARY KEY (queue_id);
ALTER TABLE ONLY stafette.message_counts
    ADD CONSTRAINT stock_pkey PRIMARY KEY (one_row);
CREATE INDEX delayed_by_due ON stafette.delayed USING btree (due_at);
CREATE INDEX delayed_by_queue ON stafette.delayed USING btree (queue_id, id);
CREATE INDEX keys_by_expiry ON stafette.keys USING btree (expires_at);
CREATE INDEX leased_by_end ON stafette.leased USING btree (leased_until);
CREATE INDEX parked_by_broker ON stafette.parked USING btree (broker_id);
CREATE INDEX queue_depths_by_time ON stafette.queue_depths USING btree (at);
CREATE INDEX queues_by_dead_letter ON stafette.queues USING btree (dead_letter_id) WHERE (dead_letter_id IS NOT NULL);
CREATE INDEX ready_by_context ON stafette.ready USING btree (context) WHERE (context IS NOT NULL);
CREATE INDEX ready_by_expiry ON stafette.ready USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX ready_by_receiver ON stafette.ready USING btree (receiver_id, queue_id) WHERE (receiver_id <> 0);
CREATE INDEX ready_by_sender ON stafette.ready USING btree (sender_id, queue_id, receiver_id, rank, id);
CREATE INDEX sessions_by_broker ON stafette.sessions USING btree (broker_id);
ALTER TABLE ONLY stafette.broker_figures
    ADD CONSTRAINT broker_figures_broker_id_fkey FOREIGN KEY (broker_id) REFERENCES stafette.brokers(id) ON DELETE CASCADE;
ALTER TABLE ONLY stafette.parked
    ADD CONSTRAINT parked_broker_id_fkey FOREIGN KEY (broker_id) REFERENCES stafette.brokers(id) ON DELETE CASCADE;
ALTER TABLE ONLY stafette.queues
    ADD CONSTRAINT queues_creator_id_fkey FOREIGN KEY (creator_id) REFERENCES stafette.clients(id);
ALTER TABLE ONLY stafette.queues
    ADD CONSTRAINT queues_dead_letter_id_fkey FOREIGN KEY (dead_letter_id) REFERENCES stafette.queues(id) ON DELETE SET NULL;
ALTER TABLE ONLY stafette.queues
    ADD CONSTRAINT queues_owner_id_fkey FOREIGN KEY (owner_id) REFERENCES stafette.clients(id);
ALTER TABLE ONLY stafette.sessions
    ADD CONSTRAINT sessions_broker_id_fkey FOREIGN KEY (broker_id) REFERENCES stafette.brokers(id) ON DELETE CASCADE;
ALTER TABLE ONLY stafette.sessions
    ADD CONSTRAINT sessions_client_id_fkey FOREIGN KEY (client_id) REFERENCES stafette.clients(id) ON DELETE CASCADE;
GRANT USAGE ON SCHEMA stafette TO old_app;
REVOKE ALL ON FUNCTION stafette.ack_batch(ids bigint[], tokens bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.add_history(sent bigint, received bigint, failed bigint, refused bigint, requests bigint, batches bigint, queue_seconds double precision, database_seconds double precision) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.announce_interests(broker integer, queues text[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.audit_lines(before_id bigint, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.broker_sessions(broker integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.browse(viewer integer, in_queue text, after_id bigint, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.claim_operator(actor text, origin text, who text, hashed text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.client_details(client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.client_message_page(client_name text, which text, after_place bigint[], at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.client_page(part text, are_online boolean, after_name text, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.close_operator_session(token bytea) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.count_all_messages(pause double precision, force boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.count_messages(queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.create_queue(client integer, queue text, options jsonb, exist_ok boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.create_queue_as_operator(actor text, origin text, queue text, options jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.create_queue_unchecked(creator integer, queue text, options jsonb, exist_ok boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.delete_client(by_client integer, client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.delete_client_as_operator(actor text, origin text, client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.delete_dead(actor text, origin text, queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.delete_queue(client integer, queue text, force boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.delete_queue_as_operator(actor text, origin text, queue text, force boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.delete_queue_unchecked(queue text, force boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.depths_of_queue(queue text, since timestamp with time zone) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.disconnect_client(actor text, origin text, client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.drain_broker(actor text, origin text, broker integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.drop_expired(at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.expire_leases(at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.extend_batch(ids bigint[], tokens bigint[], seconds double precision[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.faults(asks stafette.ask[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.find_client(client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.find_in_ready(in_queue integer, message_id bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.find_message(in_queue text, message_id bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.find_queue(queue_name text, queue_id integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.forget_history(at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.forget_keys(at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.get_queue(queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.give_back(ids bigint[], delays double precision[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.held_messages(holder integer, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.history_points(since timestamp with time zone, seconds integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.interests_elsewhere(asking_broker integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.join_broker(broker_name text, seconds double precision) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.last_message_counts() FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.lease_batch(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[], seconds double precision[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.leave_broker(broker integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.list_brokers() FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.list_clients(after_name text, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.list_queues(after_name text, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.lock_catalog(exclusive boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.lock_leases(ids bigint[], tokens bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.may_change(client integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.message_page(in_queue text, in_state text, from_sender text, to_receiver text, with_context bigint, with_priority integer, older_than double precision, newer_than double precision, with_text bytea, after_place bigint[], at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.nack_batch(ids bigint[], tokens bigint[], delays double precision[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.name_of_client(client integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.name_of_queue(queue integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.notify_brokers(brokers integer[], queues text[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.open_operator_session(actor text, origin text, seconds double precision, token bytea) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.operator_secret(who text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.operator_session(token bytea) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.overview() FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.peek_batch(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.peek_next(reader integer, in_queue integer, from_sender integer, with_context bigint, by_arrival boolean, wanted integer, skipped bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.personal_queue(client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.promote_delayed(at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.publish_metrics(broker integer, metrics jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.purge(client integer, queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.purge_as_operator(actor text, origin text, queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.purge_unchecked(queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.queue_details(queue_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.queue_lengths() FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.queue_page(part text, sorted_by text, are_personal boolean, after_key bigint, after_name text, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.raise_fault(fault integer, detail text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.read_queue_options(options jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.receive(client text, queue text, sender text, context bigint, by_arrival boolean, wanted integer) FROM PUBLIC;
GRANT ALL ON FUNCTION stafette.receive(client text, queue text, sender text, context bigint, by_arrival boolean, wanted integer) TO old_app;
REVOKE ALL ON FUNCTION stafette.receive_batch(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.record_action(actor text, origin text, action text, subject text, detail text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.redrive(actor text, origin text, queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.register(client_name text, client_mode text, client_secret text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.release_sessions(clients integer[], tokens bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.renew_broker(broker integer, seconds double precision) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.resolve_asks(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[], removing boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.search_messages(number bigint, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.search_names(part text, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.send(sender text, queue text, body bytea, receiver text, priority integer, context bigint, headers jsonb, delay double precision, ttl double precision, key text, allow_unknown boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION stafette.send(sender text, queue text, body bytea, receiver text, priority integer, context bigint, headers jsonb, delay double precision, ttl double precision, key text, allow_unknown boolean) TO old_app;
REVOKE ALL ON FUNCTION stafette.send_batch(requests integer[], senders integer[], queues text[], receivers text[], priorities smallint[], contexts bigint[], headers jsonb[], bodies bytea[], delays double precision[], ttls double precision[], keys text[], allow_unknown boolean[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.send_to_all(sender text, queues text[], body bytea, receiver text, priority integer, context bigint, headers jsonb, delay double precision, ttl double precision, key text, allow_unknown boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION stafette.send_to_all(sender text, queues text[], body bytea, receiver text, priority integer, context bigint, headers jsonb, delay double precision, ttl double precision, key text, allow_unknown boolean) TO old_app;
REVOKE ALL ON FUNCTION stafette.set_operator_secret(actor text, origin text, who text, hashed text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.set_secret(actor text, origin text, client_name text, client_secret text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.sql_client(client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.statistics() FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.take(reader integer, in_queue integer, from_sender integer, with_context bigint, by_arrival boolean, wanted integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.take_batch(asks stafette.ask[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.take_sessions(clients integer[], tokens bigint[], broker integer, resumed bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.waiting_queues(client integer, at_most integer) FROM PUBLIC;
