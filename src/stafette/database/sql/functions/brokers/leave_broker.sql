-- A broker signs off; its sessions end.
CREATE OR REPLACE FUNCTION stafette.leave_broker(broker integer) RETURNS void
LANGUAGE sql AS $$
    DELETE FROM stafette.brokers WHERE id = broker
$$;
