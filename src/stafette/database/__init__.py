"""The database tier: SQL files, the embedded server, and the Store: a module per noun over one pool."""
