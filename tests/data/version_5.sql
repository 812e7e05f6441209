-- A database as commit 3f5aa0a (schema version 5) left it: `pg_dump --no-owner --inserts` of a system with clients, queues
-- of every option, messages in every state, keys, history, audit lines, an operator and a role old_app that may use the
-- SQL API. Comments, settings that PostgreSQL 15 does not know and the bodies of functions are left out: a migration
-- replaces every function, or drops it.
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
CREATE FUNCTION stafette.ack_batch(ids bigint[], tokens bigint[]) RETURNS SETOF integer
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.add_history(sent bigint, received bigint, failed bigint, refused bigint, requests bigint, batches bigint, queue_seconds double precision, database_seconds double precision) RETURNS void
    LANGUAGE sql
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
CREATE FUNCTION stafette.bury(queue text) RETURNS bigint
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.claim_operator(who text, hashed text) RETURNS boolean
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.client_details(client_name text) RETURNS TABLE(id integer, name text, mode text, registered_at timestamp with time zone, last_seen_at timestamp with time zone, broker text, online_since timestamp with time zone, has_secret boolean, personal_queue text, sent jsonb, waiting jsonb)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS '';
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
CREATE TABLE stafette.dead (
    id bigint CONSTRAINT ready_id_not_null NOT NULL,
    queue_id integer CONSTRAINT ready_queue_id_not_null NOT NULL,
    receiver_id integer CONSTRAINT ready_receiver_id_not_null NOT NULL,
    sender_id integer CONSTRAINT ready_sender_id_not_null NOT NULL,
    rank smallint CONSTRAINT ready_rank_not_null NOT NULL,
    deliveries smallint CONSTRAINT ready_deliveries_not_null NOT NULL,
    context bigint,
    arrived_at timestamp with time zone CONSTRAINT ready_arrived_at_not_null NOT NULL,
    expires_at timestamp with time zone,
    headers jsonb,
    body bytea CONSTRAINT ready_body_not_null NOT NULL,
    died_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT ready_deliveries_check CHECK ((deliveries >= 0)),
    CONSTRAINT ready_headers_check CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT ready_rank_check CHECK (((rank >= 0) AND (rank <= 9)))
);
CREATE TABLE stafette.delayed (
    id bigint CONSTRAINT ready_id_not_null NOT NULL,
    queue_id integer CONSTRAINT ready_queue_id_not_null NOT NULL,
    receiver_id integer CONSTRAINT ready_receiver_id_not_null NOT NULL,
    sender_id integer CONSTRAINT ready_sender_id_not_null NOT NULL,
    rank smallint CONSTRAINT ready_rank_not_null NOT NULL,
    deliveries smallint CONSTRAINT ready_deliveries_not_null NOT NULL,
    context bigint,
    arrived_at timestamp with time zone CONSTRAINT ready_arrived_at_not_null NOT NULL,
    expires_at timestamp with time zone,
    headers jsonb,
    body bytea CONSTRAINT ready_body_not_null NOT NULL,
    due_at timestamp with time zone NOT NULL,
    CONSTRAINT ready_deliveries_check CHECK ((deliveries >= 0)),
    CONSTRAINT ready_headers_check CHECK ((jsonb_typeof(headers) = 'object'::text)),
    CONSTRAINT ready_rank_check CHECK (((rank >= 0) AND (rank <= 9)))
)
WITH (autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='10000', autovacuum_vacuum_cost_delay='0');
CREATE TABLE stafette.leased (
    id bigint CONSTRAINT ready_id_not_null NOT NULL,
    queue_id integer CONSTRAINT ready_queue_id_not_null NOT NULL,
    receiver_id integer CONSTRAINT ready_receiver_id_not_null NOT NULL,
    sender_id integer CONSTRAINT ready_sender_id_not_null NOT NULL,
    rank smallint CONSTRAINT ready_rank_not_null NOT NULL,
    deliveries smallint CONSTRAINT ready_deliveries_not_null NOT NULL,
    context bigint,
    arrived_at timestamp with time zone CONSTRAINT ready_arrived_at_not_null NOT NULL,
    expires_at timestamp with time zone,
    headers jsonb,
    body bytea CONSTRAINT ready_body_not_null NOT NULL,
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
CREATE FUNCTION stafette.count_messages(queue text) RETURNS TABLE(ready bigint, delayed bigint, leased bigint, dead bigint)
    LANGUAGE plpgsql STABLE
    AS '';
CREATE VIEW stafette.queue_list AS
 SELECT q.id,
    q.name,
    COALESCE(c.name, 'operator'::text) AS creator,
    q.created_at,
    o.name AS owner,
    ( SELECT count(*) AS count
           FROM stafette.ready m
          WHERE (m.queue_id = q.id)) AS messages,
    q.exclude_own,
    q.max_body,
    q.max_deliveries,
    d.name AS dead_letter
   FROM (((stafette.queues q
     LEFT JOIN stafette.clients c ON ((c.id = q.creator_id)))
     LEFT JOIN stafette.clients o ON ((o.id = q.owner_id)))
     LEFT JOIN stafette.queues d ON ((d.id = q.dead_letter_id)));
CREATE FUNCTION stafette.create_queue(client integer, queue text, exclude_own boolean DEFAULT false, exist_ok boolean DEFAULT false, max_body integer DEFAULT NULL::integer, max_deliveries integer DEFAULT NULL::integer, dead_letter text DEFAULT NULL::text) RETURNS SETOF stafette.queue_list
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.delete_client(by_client integer, client_name text) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.delete_queue(client integer, queue text, force boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.depths_of_queue(queue text, since timestamp with time zone) RETURNS TABLE(at timestamp with time zone, messages bigint)
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.drop_expired(at_most integer) RETURNS bigint
    LANGUAGE sql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.empty_queue(queue text) RETURNS bigint
    LANGUAGE plpgsql
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
CREATE FUNCTION stafette.find_in_ready(in_queue integer, wanted bigint) RETURNS TABLE(queue_id integer, receiver_id integer, rank smallint)
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS '';
CREATE FUNCTION stafette.find_message(in_queue text, wanted bigint) RETURNS TABLE(message stafette.message_list, body bytea)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.find_queue(queue_name text, queue_id integer DEFAULT NULL::integer) RETURNS SETOF stafette.queue_list
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
CREATE FUNCTION stafette.hold_leases(ids bigint[], tokens bigint[]) RETURNS TABLE(id bigint, place integer)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.hold_structure(alone boolean DEFAULT false) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.join_broker(broker_name text, seconds double precision) RETURNS integer
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.last_stock() RETURNS TABLE(at timestamp with time zone, seconds double precision, ready bigint, delayed bigint, leased bigint, dead bigint, oldest_at timestamp with time zone, clients bigint, online bigint, brokers bigint, queues bigint)
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
CREATE FUNCTION stafette.list_queues(after_name text DEFAULT ''::text, at_most integer DEFAULT NULL::integer) RETURNS SETOF stafette.queue_list
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.look(me integer, in_queue integer, from_sender integer, with_context bigint, by_arrival boolean, wanted integer, skipped bigint[] DEFAULT '{}'::bigint[]) RETURNS TABLE(tid tid, id bigint)
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.make_queue(creator integer, queue text, exclude_own boolean, exist_ok boolean, max_body integer, max_deliveries integer, dead_letter text) RETURNS void
    LANGUAGE plpgsql
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
CREATE FUNCTION stafette.note_action(who text, address text, action text, subject text, detail text) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
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
CREATE FUNCTION stafette.noted_actions(before_id bigint, at_most integer) RETURNS SETOF stafette.audit
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.open_operator_session(token bytea, who text, seconds double precision) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.operator_secret(who text) RETURNS text
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.operator_session(token bytea) RETURNS text
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.order_disconnect(client_name text) RETURNS boolean
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.order_drain(broker integer) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.overview() RETURNS TABLE(clients bigint, online bigint, brokers bigint, queues bigint, ready bigint, delayed bigint, leased bigint, dead bigint)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.park(broker integer, queues text[]) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.parked_elsewhere(me integer) RETURNS TABLE(queue text, broker integer)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.peek_batch(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[]) RETURNS SETOF stafette.answer
    LANGUAGE plpgsql STABLE
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS '';
CREATE FUNCTION stafette.personal_queue(client_name text) RETURNS SETOF stafette.queue_list
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.promote_delayed(at_most integer) RETURNS TABLE(queue text, messages bigint)
    LANGUAGE plpgsql
    SET plan_cache_mode TO 'force_generic_plan'
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.publish_figures(broker integer, news jsonb) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.purge(client integer, queue text) RETURNS bigint
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.queue_details(queue text) RETURNS TABLE(id integer, name text, creator text, created_at timestamp with time zone, owner text, ready bigint, delayed bigint, leased bigint, dead bigint, oldest_at timestamp with time zone, exclude_own boolean, max_body integer, max_deliveries integer, dead_letter text, exact boolean, counted_at timestamp with time zone, top_senders jsonb, top_receivers jsonb)
    LANGUAGE plpgsql STABLE
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS '';
CREATE FUNCTION stafette.queue_lengths() RETURNS TABLE(queue text, messages bigint)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.queue_page(part text, sorted_by text, are_personal boolean, after_key bigint, after_name text, at_most integer) RETURNS TABLE(sort_key bigint, id integer, name text, creator text, created_at timestamp with time zone, owner text, ready bigint, delayed bigint, leased bigint, dead bigint, oldest_at timestamp with time zone, exclude_own boolean, max_body integer, max_deliveries integer, dead_letter text)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.raise_fault(fault integer, detail text) RETURNS void
    LANGUAGE plpgsql
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
CREATE FUNCTION stafette.redrive(queue text) RETURNS bigint
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.register(client_name text, client_mode text, client_secret text) RETURNS TABLE(id integer, name text, mode text, secret text)
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.release_sessions(clients integer[], tokens bigint[]) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.remove_queue(queue text, force boolean) RETURNS void
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    AS '';
CREATE FUNCTION stafette.renew_broker(broker integer, seconds double precision) RETURNS boolean
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.resolve_asks(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[], removing boolean) RETURNS stafette.ask[]
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.ring(brokers integer[], queues text[]) RETURNS void
    LANGUAGE sql
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
CREATE FUNCTION stafette.set_operator_secret(who text, hashed text) RETURNS void
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.set_secret(client_name text, client_secret text) RETURNS void
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.speaker(client_name text) RETURNS integer
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.statistics() RETURNS TABLE(commits bigint, rollbacks bigint, blocks_read bigint, blocks_hit bigint, rows_inserted bigint, rows_deleted bigint, deadlocks bigint, wal_bytes bigint, dead_rows bigint, connections bigint, active bigint)
    LANGUAGE sql STABLE
    AS '';
CREATE FUNCTION stafette.take(me integer, in_queue integer, from_sender integer, with_context bigint, by_arrival boolean, wanted integer) RETURNS SETOF stafette.ready
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.take_batch(asks stafette.ask[]) RETURNS TABLE(place integer, id bigint, queue_id integer, receiver_id integer, sender_id integer, rank smallint, deliveries smallint, context bigint, arrived_at timestamp with time zone, expires_at timestamp with time zone, headers jsonb, body bytea)
    LANGUAGE plpgsql
    AS '';
CREATE FUNCTION stafette.take_sessions(clients integer[], tokens bigint[], broker integer, resumed bigint[]) RETURNS TABLE(place integer, token bigint)
    LANGUAGE sql
    AS '';
CREATE FUNCTION stafette.take_stock(pause double precision, force boolean DEFAULT false) RETURNS boolean
    LANGUAGE plpgsql
    SET enable_seqscan TO 'off'
    SET enable_nestloop TO 'off'
    AS '';
CREATE FUNCTION stafette.the_queue(queue text) RETURNS stafette.queues
    LANGUAGE plpgsql STABLE
    AS '';
CREATE FUNCTION stafette.waiting_queues(me integer, at_most integer DEFAULT NULL::integer) RETURNS SETOF stafette.queue_list
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
CREATE TABLE stafette.stock (
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
CREATE TABLE stafette.stock_of_queues (
    queue_id integer NOT NULL,
    ready bigint NOT NULL,
    delayed bigint NOT NULL,
    leased bigint NOT NULL,
    dead bigint NOT NULL,
    oldest_at timestamp with time zone
)
WITH (fillfactor='50');
INSERT INTO stafette.audit OVERRIDING SYSTEM VALUE VALUES
	(1, '2026-11-18 06:49:02.118052+00', 'admin', '127.0.0.1', 'create queue', 'by an operator', ''),
	(2, '2026-11-18 06:49:02.118315+00', 'admin', '127.0.0.1', 'purge', 'plain', '3 messages');
INSERT INTO stafette.broker_figures VALUES
	(1, '2026-11-18 06:49:02.111166+00', '{"requests": 3}');
INSERT INTO stafette.brokers OVERRIDING SYSTEM VALUE VALUES
	(1, 'old broker', '2026-11-18 06:49:02.109812+00', '2026-11-18 06:49:12.109812+00');
INSERT INTO stafette.clients OVERRIDING SYSTEM VALUE VALUES
	(2, 'bob', 'full', 'scrypt$bob', '2026-11-18 06:49:02.080189+00', '2026-11-18 06:49:02.080189+00'),
	(3, 'carol', 'read-only', NULL, '2026-11-18 06:49:02.083042+00', '2026-11-18 06:49:02.083042+00'),
	(4, 'dave', 'full', NULL, NULL, NULL),
	(1, 'alice', 'full', NULL, '2026-11-18 06:49:02.077094+00', '2026-11-18 06:49:02.110218+00');
INSERT INTO stafette.dead VALUES
	(12, 7, 0, 1, 1, 1, NULL, '2026-11-18 06:49:02.099823+00', NULL, NULL, '\x6469657320746f6f', '2026-11-18 06:49:02.106978+00'),
	(11, 7, 0, 1, 5, 1, NULL, '2026-11-18 06:49:02.099823+00', NULL, NULL, '\x64696573', '2026-11-18 06:49:02.106978+00');
INSERT INTO stafette.delayed VALUES
	(9, 5, 0, 1, 7, 0, NULL, '2026-11-18 06:49:02.099823+00', NULL, NULL, '\x736f6f6e', '2026-11-18 06:50:02.099823+00'),
	(10, 5, 0, 1, 5, 0, NULL, '2026-11-18 06:49:02.099823+00', NULL, NULL, '\x696e20612063656e74757279', '2126-10-25 06:49:02.099823+00');
INSERT INTO stafette.history VALUES
	(10, '2026-11-18 06:49:00+00', 0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 2, 2, 1),
	(10, '2026-11-18 06:48:50+00', 11, 2, 0, 0, 13, 4, 0.5, 0.25, NULL, NULL, NULL, NULL, NULL),
	(300, '2026-11-18 06:45:00+00', 11, 2, 0, 0, 13, 4, 0.5, 0.25, 8, 2, 2, 2, 1);
INSERT INTO stafette.keys VALUES
	(1, 'once', 'f957604c194b2bc09c082b749104b6ce', '{6}', '2026-11-19 06:49:02.099823+00');
INSERT INTO stafette.leased VALUES
	(13, 7, 0, 1, 5, 1, NULL, '2026-11-18 06:49:02.108313+00', NULL, '{"a": "b"}', '\x6c6561736564', 3, 2, '2126-10-25 06:49:02.108688+00'),
	(14, 7, 0, 1, 9, 1, NULL, '2026-11-18 06:49:02.108313+00', NULL, NULL, '\x6c656173652072616e206f7574', 4, 2, '2026-11-18 06:49:03.109541+00');
INSERT INTO stafette.operator_sessions VALUES
	('\x0102', 'admin', '2126-10-25 06:49:02.115667+00');
INSERT INTO stafette.operators VALUES
	('admin', 'scrypt$admin', '2026-11-18 06:49:02.115199+00');
INSERT INTO stafette.queue_depths VALUES
	(5, '2026-11-18 06:49:00+00', 6),
	(2, '2026-11-18 06:49:00+00', 1),
	(6, '2026-11-18 06:49:00+00', 1),
	(7, '2026-11-18 06:49:00+00', 0);
INSERT INTO stafette.queues OVERRIDING SYSTEM VALUE VALUES
	(1, '@alice', 1, '2026-11-18 06:49:02.077094+00', 1, false, 1048576, 5, NULL),
	(2, '@bob', 2, '2026-11-18 06:49:02.080189+00', 2, false, 1048576, 5, NULL),
	(3, '@carol', 3, '2026-11-18 06:49:02.083042+00', 3, false, 1048576, 5, NULL),
	(4, 'dead letters', 1, '2026-11-18 06:49:02.083326+00', NULL, false, 1048576, 5, NULL),
	(5, 'plain', 1, '2026-11-18 06:49:02.086874+00', NULL, false, 1048576, 5, NULL),
	(6, 'options', 1, '2026-11-18 06:49:02.087192+00', NULL, true, 1000, 1, 4),
	(7, 'dying', 2, '2026-11-18 06:49:02.087629+00', NULL, false, 1048576, 1, NULL),
	(8, 'by an operator', NULL, '2026-11-18 06:49:02.115973+00', NULL, false, 1048576, 5, NULL);
INSERT INTO stafette.ready VALUES
	(1, 5, 0, 1, 5, 0, NULL, '2026-11-18 06:49:02.099823+00', NULL, NULL, '\x6669727374'),
	(2, 5, 0, 1, 0, 0, 7, '2026-11-18 06:49:02.099823+00', NULL, '{"kind": "sale", "naïve": "ja"}', '\x757267656e74'),
	(3, 5, 1, 2, 5, 0, NULL, '2026-11-18 06:49:02.099823+00', NULL, NULL, '\x666f7220616c696365'),
	(4, 5, 0, 1, 9, 0, NULL, '2026-11-18 06:49:02.099823+00', '2126-10-25 06:49:02.099823+00', NULL, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff'),
	(5, 2, 2, 1, 9, 0, NULL, '2026-11-18 06:49:02.099823+00', '2126-10-25 06:49:02.099823+00', NULL, '\x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff'),
	(6, 5, 0, 1, 5, 0, NULL, '2026-11-18 06:49:02.099823+00', NULL, NULL, '\x7365636f6e64'),
	(7, 5, 4, 1, 5, 0, NULL, '2026-11-18 06:49:02.099823+00', NULL, NULL, '\x666f722064617665'),
	(8, 6, 0, 2, 5, 0, NULL, '2026-11-18 06:49:02.099823+00', NULL, NULL, '\x78787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878787878');
INSERT INTO stafette.schema_state VALUES
	(true, 5, '3e98bd29f0305eb47a74576580b8ca81ca2c74d49dd9dfef100cddb7540d6b5a', '2026-11-18 06:49:01.992588+00');
INSERT INTO stafette.sessions VALUES
	(1, 1, 8177524325721556873, '2026-11-18 06:49:02.110218+00');
INSERT INTO stafette.stock VALUES
	(true, '2026-11-18 06:49:02.112103+00', 0.002282, 8, 2, 2, 2, '2026-11-18 06:49:02.099823+00');
INSERT INTO stafette.stock_of_queues VALUES
	(2, 1, 0, 0, 0, '2026-11-18 06:49:02.099823+00'),
	(5, 6, 2, 0, 0, '2026-11-18 06:49:02.099823+00'),
	(6, 1, 0, 0, 0, '2026-11-18 06:49:02.099823+00'),
	(7, 0, 0, 2, 2, NULL);
SELECT pg_catalog.setval('stafette.audit_id_seq', 2, true);
SELECT pg_catalog.setval('stafette.brokers_id_seq', 1, true);
SELECT pg_catalog.setval('stafette.clients_id_seq', 4, true);
SELECT pg_catalog.setval('stafette.lease_token', 4, true);
SELECT pg_catalog.setval('stafette.message_id', 14, true);
SELECT pg_catalog.setval('stafette.queues_id_seq', 8, true);
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
ALTER TABLE ONLY stafette.stock_of_queues
    ADD CONSTRAINT stock_of_queues_pkey PRIMARY KEY (queue_id);
ALTER TABLE ONLY stafette.stock
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
REVOKE ALL ON FUNCTION stafette.broker_sessions(broker integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.browse(viewer integer, in_queue text, after_id bigint, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.bury(queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.claim_operator(who text, hashed text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.client_details(client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.client_message_page(client_name text, which text, after_place bigint[], at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.client_page(part text, are_online boolean, after_name text, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.close_operator_session(token bytea) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.count_messages(queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.create_queue(client integer, queue text, exclude_own boolean, exist_ok boolean, max_body integer, max_deliveries integer, dead_letter text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.delete_client(by_client integer, client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.delete_queue(client integer, queue text, force boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.depths_of_queue(queue text, since timestamp with time zone) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.drop_expired(at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.empty_queue(queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.expire_leases(at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.extend_batch(ids bigint[], tokens bigint[], seconds double precision[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.faults(asks stafette.ask[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.find_client(client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.find_in_ready(in_queue integer, wanted bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.find_message(in_queue text, wanted bigint) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.find_queue(queue_name text, queue_id integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.forget_history(at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.forget_keys(at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.give_back(ids bigint[], delays double precision[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.held_messages(holder integer, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.history_points(since timestamp with time zone, seconds integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.hold_leases(ids bigint[], tokens bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.hold_structure(alone boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.join_broker(broker_name text, seconds double precision) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.last_stock() FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.lease_batch(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[], seconds double precision[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.leave_broker(broker integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.list_brokers() FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.list_clients(after_name text, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.list_queues(after_name text, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.look(me integer, in_queue integer, from_sender integer, with_context bigint, by_arrival boolean, wanted integer, skipped bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.make_queue(creator integer, queue text, exclude_own boolean, exist_ok boolean, max_body integer, max_deliveries integer, dead_letter text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.may_change(client integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.message_page(in_queue text, in_state text, from_sender text, to_receiver text, with_context bigint, with_priority integer, older_than double precision, newer_than double precision, with_text bytea, after_place bigint[], at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.nack_batch(ids bigint[], tokens bigint[], delays double precision[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.name_of_client(client integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.name_of_queue(queue integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.note_action(who text, address text, action text, subject text, detail text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.noted_actions(before_id bigint, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.open_operator_session(token bytea, who text, seconds double precision) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.operator_secret(who text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.operator_session(token bytea) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.order_disconnect(client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.order_drain(broker integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.overview() FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.park(broker integer, queues text[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.parked_elsewhere(me integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.peek_batch(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.personal_queue(client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.promote_delayed(at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.publish_figures(broker integer, news jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.purge(client integer, queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.queue_details(queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.queue_lengths() FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.queue_page(part text, sorted_by text, are_personal boolean, after_key bigint, after_name text, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.raise_fault(fault integer, detail text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.receive(client text, queue text, sender text, context bigint, by_arrival boolean, wanted integer) FROM PUBLIC;
GRANT ALL ON FUNCTION stafette.receive(client text, queue text, sender text, context bigint, by_arrival boolean, wanted integer) TO old_app;
REVOKE ALL ON FUNCTION stafette.receive_batch(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.redrive(queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.register(client_name text, client_mode text, client_secret text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.release_sessions(clients integer[], tokens bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.remove_queue(queue text, force boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.renew_broker(broker integer, seconds double precision) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.resolve_asks(clients integer[], queues text[], senders text[], contexts bigint[], by_arrival boolean[], wanted integer[], removing boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.ring(brokers integer[], queues text[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.search_messages(number bigint, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.search_names(part text, at_most integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.send(sender text, queue text, body bytea, receiver text, priority integer, context bigint, headers jsonb, delay double precision, ttl double precision, key text, allow_unknown boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION stafette.send(sender text, queue text, body bytea, receiver text, priority integer, context bigint, headers jsonb, delay double precision, ttl double precision, key text, allow_unknown boolean) TO old_app;
REVOKE ALL ON FUNCTION stafette.send_batch(requests integer[], senders integer[], queues text[], receivers text[], priorities smallint[], contexts bigint[], headers jsonb[], bodies bytea[], delays double precision[], ttls double precision[], keys text[], allow_unknown boolean[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.send_to_all(sender text, queues text[], body bytea, receiver text, priority integer, context bigint, headers jsonb, delay double precision, ttl double precision, key text, allow_unknown boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION stafette.send_to_all(sender text, queues text[], body bytea, receiver text, priority integer, context bigint, headers jsonb, delay double precision, ttl double precision, key text, allow_unknown boolean) TO old_app;
REVOKE ALL ON FUNCTION stafette.set_operator_secret(who text, hashed text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.set_secret(client_name text, client_secret text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.speaker(client_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.statistics() FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.take(me integer, in_queue integer, from_sender integer, with_context bigint, by_arrival boolean, wanted integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.take_batch(asks stafette.ask[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.take_sessions(clients integer[], tokens bigint[], broker integer, resumed bigint[]) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.take_stock(pause double precision, force boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.the_queue(queue text) FROM PUBLIC;
REVOKE ALL ON FUNCTION stafette.waiting_queues(me integer, at_most integer) FROM PUBLIC;
