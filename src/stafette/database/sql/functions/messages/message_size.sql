-- Bytes that a message takes in an answer, names aside. The length of a body is known without reading it.
CREATE OR REPLACE FUNCTION stafette.message_size(headers jsonb, body bytea) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT octet_length(body)::bigint + coalesce(octet_length(headers::text), 0) + 100
$$;
