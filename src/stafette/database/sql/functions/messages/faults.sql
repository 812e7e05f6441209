-- The faults of asks, as answers.
CREATE OR REPLACE FUNCTION stafette.faults(asks stafette.ask[]) RETURNS SETOF stafette.answer
LANGUAGE sql IMMUTABLE AS $$
    SELECT a.place, a.fault, a.detail, NULL::bigint, NULL::text, NULL::text, NULL::text, NULL::bigint, NULL::integer,
           NULL::timestamptz, NULL::integer, NULL::jsonb, NULL::bytea, NULL::bigint
    FROM unnest(asks) AS a WHERE a.fault IS NOT NULL
$$;
