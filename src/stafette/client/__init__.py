"""The client's side: a link to a broker, and the client that keeps one through failures. Needs no database driver."""
