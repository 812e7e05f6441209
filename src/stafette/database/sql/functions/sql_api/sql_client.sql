-- The id of the client as which an application uses the SQL API. A client that has a secret cannot be used from SQL.
--
-- Nor can a transaction that keeps the snapshot with which it began: it still sees queues that are deleted, and would
-- store what nobody can ever see. It is refused, as no lock shows such a transaction what is there now.
CREATE OR REPLACE FUNCTION stafette.sql_client(client_name text) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    client    stafette.clients;
    isolation text := current_setting('transaction_isolation');
BEGIN
    IF isolation NOT IN ('read committed', 'read uncommitted') THEN
        PERFORM stafette.raise_fault(
            100, format('this transaction is %s, in which queues and messages may be seen that are gone;'
                        ' send and receive in one that began with BEGIN ISOLATION LEVEL READ COMMITTED', isolation));
    END IF;
    SELECT * INTO client FROM stafette.clients AS c WHERE c.name = client_name AND c.registered_at IS NOT NULL;
    IF client.id IS NULL THEN
        PERFORM stafette.raise_fault(105, format('there is no client %s; let it register first', client_name));
    ELSIF client.secret IS NOT NULL THEN
        PERFORM stafette.raise_fault(
            108, format('client %s has a secret; use it through a broker', client_name));
    END IF;
    RETURN client.id;
END
$$;
