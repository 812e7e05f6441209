-- All functions that write messages hold this lock in shared mode until their transaction ends; deleting a queue or a
-- client, and purging, take it alone (lock_catalog_alone). So a queue cannot be deleted or purged between its look-up
-- and the insert of a message. It costs one shared lock per batch, where a foreign key would lock a row of queues per
-- message.
--
-- It is the lock of a table, because that needs a right to the table; an advisory lock is anybody's. In this mode it
-- does not conflict with what pg_dump holds.
CREATE OR REPLACE FUNCTION stafette.lock_catalog() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE stafette.catalog_lock IN ROW SHARE MODE;
END
$$;
