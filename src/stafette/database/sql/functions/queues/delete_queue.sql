-- Deletes an empty queue; with force also one that has messages. It is gone at once; its messages are deleted later.
CREATE OR REPLACE FUNCTION stafette.delete_queue(client integer, queue text, force boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM stafette.may_change(client);
    PERFORM stafette.delete_queue_unchecked(queue, force);
END
$$;
