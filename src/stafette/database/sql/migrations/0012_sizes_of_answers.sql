-- An ask says how large its answer may be. The type is that of parameters only: no row has it.
ALTER TYPE stafette.ask ADD ATTRIBUTE max_bytes bigint;
