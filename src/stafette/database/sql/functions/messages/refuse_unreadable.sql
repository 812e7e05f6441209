-- Raises the fault for a message that is_readable() refuses, so that it stays where it is: nobody may pop what nobody can
-- be sent. This is the one fault that ends a whole batch. The caller repeats it in parts until the request that is due
-- the message is alone with it, because to look for such a request in every batch would cost a sixth of its time.
CREATE OR REPLACE FUNCTION stafette.refuse_unreadable(id bigint, queue text) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stafette.raise_fault(
        301, format('message %s in queue %s cannot be read: a header is not a text, or its time of arrival is out of'
                    ' bounds; it stays there until an operator has corrected or deleted it',
                    id, queue));
END
$$;
