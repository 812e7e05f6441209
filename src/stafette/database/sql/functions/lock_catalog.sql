-- All functions that write messages hold this lock in shared mode until their transaction ends; deleting a queue or a
-- client takes it exclusively. So a queue cannot be deleted between its look-up and the insert of a message. It costs
-- one shared lock per batch, where a foreign key would lock a row of queues per message.
CREATE OR REPLACE FUNCTION stafette.lock_catalog(exclusive boolean DEFAULT false) RETURNS void
LANGUAGE sql AS $$
    SELECT CASE WHEN exclusive THEN pg_advisory_xact_lock(5746661) ELSE pg_advisory_xact_lock_shared(5746661) END
$$;
