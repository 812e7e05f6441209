-- Deleted clients to whom messages of this state may still be addressed. Nobody gets these, and they are not counted.
CREATE OR REPLACE FUNCTION stafette.discarded_receivers(in_state text) RETURNS SETOF integer
LANGUAGE sql STABLE AS $$
    SELECT d.id FROM stafette.discarded AS d WHERE d.state = in_state AND d.owner = 'receiver'
$$;
