-- A fault is a wire code (see errors.py) and a message. Batches return faults as rows; single calls raise them, as
-- SQLSTATE ST + code.
CREATE OR REPLACE FUNCTION stafette.raise_fault(fault integer, detail text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'ST' || fault, MESSAGE = detail;
END
$$;
