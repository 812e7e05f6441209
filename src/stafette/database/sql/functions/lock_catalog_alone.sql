-- Takes the lock of lock_catalog() alone. While it waits, all others wait behind it. So it does not even begin if a
-- transaction that holds the lock has been open for a second, and gives up after 30 ms: the fault names the process in
-- the way. Python tries again after a pause (database/pool.py).
CREATE OR REPLACE FUNCTION stafette.lock_catalog_alone() RETURNS void
LANGUAGE plpgsql
SET lock_timeout = '30ms'
AS $$
DECLARE
    holder integer := (SELECT h.pid FROM stafette.catalog_holders() AS h
                       WHERE h.since < clock_timestamp() - interval '1 second' ORDER BY h.since LIMIT 1);
BEGIN
    IF holder IS NULL THEN
        BEGIN
            LOCK TABLE stafette.catalog_lock IN EXCLUSIVE MODE;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            holder := (SELECT h.pid FROM stafette.catalog_holders() AS h ORDER BY h.since NULLS FIRST LIMIT 1);
        END;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'lock_not_available', MESSAGE = format(
        'an open transaction of process %s, which has sent or received, is in the way; end it and try again',
        coalesce(holder::text, '(just ended)'));
END
$$;
