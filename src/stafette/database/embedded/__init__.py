"""A PostgreSQL of our own in a data folder: created, started and stopped, with nothing to install or configure."""

from stafette.database.embedded.cluster import LOOPBACK, SOCKETS, EmbeddedPostgres

__all__ = ["LOOPBACK", "SOCKETS", "EmbeddedPostgres"]
