-- The options of a queue from a JSON object; missing ones are NULL, and a key that is not an option is a fault.
CREATE OR REPLACE FUNCTION stafette.read_queue_options(options jsonb) RETURNS stafette.queue_options
LANGUAGE plpgsql STABLE AS $$
DECLARE
    names   text[] := ARRAY(SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
                            WHERE a.attrelid = 'stafette.queue_options'::regclass AND NOT a.attisdropped
                            ORDER BY a.attname::text COLLATE "C");
    unknown text;
BEGIN
    IF jsonb_typeof(options) <> 'object' THEN
        PERFORM stafette.raise_fault(100, 'the options of a queue are a JSON object, for example {"max_body": 1000}');
    END IF;
    SELECT k INTO unknown FROM jsonb_object_keys(options) AS k WHERE k <> ALL (names) ORDER BY k COLLATE "C" LIMIT 1;
    IF unknown IS NOT NULL THEN
        PERFORM stafette.raise_fault(
            100, format('a queue has no option %s; its options are %s', unknown, array_to_string(names, ', ')));
    END IF;
    RETURN jsonb_populate_record(NULL::stafette.queue_options, options);
END
$$;
