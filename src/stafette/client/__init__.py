"""The client: a connection to a broker, with failover. Needs no database driver."""
