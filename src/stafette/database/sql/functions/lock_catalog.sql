-- All functions that write messages hold this lock in shared mode until their transaction ends; deleting a queue or a
-- client, and purging, take it alone (lock_catalog_alone). So a queue cannot be deleted or purged between its look-up
-- and the insert of a message. It costs one shared lock per batch, where a foreign key would lock a row of queues per
-- message.
CREATE OR REPLACE FUNCTION stafette.lock_catalog() RETURNS void
LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock_shared(5746661)
$$;
