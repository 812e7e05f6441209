"""The database tier: SQL files, the embedded server, and the Store, the only caller of SQL."""
