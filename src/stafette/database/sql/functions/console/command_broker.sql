-- Gives a broker a command, which it reads when it is woken at the commit (take_commands). The notification says nothing,
-- because anybody could send one: that a command is in the table is what shows that an operator gave it.
CREATE OR REPLACE FUNCTION stafette.command_broker(
    broker integer, command text, client integer DEFAULT NULL, token bigint DEFAULT NULL
) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO stafette.broker_commands (broker_id, command, client_id, token) VALUES (broker, command, client, token)
    ON CONFLICT DO NOTHING;
    SELECT pg_notify('stafette_commands_' || broker, '')
$$;
