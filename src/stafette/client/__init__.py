"""The client: a connection to a broker, kept through failures. Needs no database driver."""
