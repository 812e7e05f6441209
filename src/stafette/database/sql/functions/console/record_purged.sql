-- Puts the number of messages that a purge has hidden into its line of the audit, which is one of the last.
CREATE OR REPLACE FUNCTION stafette.record_purged(store integer, messages bigint) RETURNS void
LANGUAGE sql
SET enable_seqscan = off
AS $$
    UPDATE stafette.audit AS a SET detail = format('%s messages', messages)
    WHERE a.id > (SELECT max(l.id) - 1000 FROM stafette.audit AS l)
      AND a.action = 'purge' AND a.detail = format('not counted (store %s)', store)
$$;
