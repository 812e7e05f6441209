-- A session has two numbers. `session` is drawn by the client and stays the same at every broker: who shows it again is
-- this client. `token` is new for each connection, so that what belongs to an older one is recognised.
--
-- Existing rows have no session number: their clients have to wait until the old session has ended.
ALTER TABLE stafette.sessions ADD COLUMN session bigint;
