-- A fault is a wire code and a sentence (errors.py holds the codes). Batches return faults as rows; a single call
-- raises them, as SQLSTATE ST + code.
CREATE OR REPLACE FUNCTION stafette.raise_fault(fault integer, detail text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'ST' || fault, MESSAGE = detail;
END
$$;
