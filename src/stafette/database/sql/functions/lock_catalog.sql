-- All that writes messages shares this lock until its transaction ends; deleting a queue or a client takes it alone.
-- So a queue cannot vanish between the look at it and the message put in, at the price of one shared lock per batch
-- instead of one locked row of queues per message (what a foreign key does).
CREATE OR REPLACE FUNCTION stafette.lock_catalog(exclusive boolean DEFAULT false) RETURNS void
LANGUAGE sql AS $$
    SELECT CASE WHEN exclusive THEN pg_advisory_xact_lock(5746661) ELSE pg_advisory_xact_lock_shared(5746661) END
$$;
