"""A PostgreSQL of our own in a data folder: created, started and stopped, with nothing to install or configure."""

from stafette.database.embedded.cluster import LOOPBACK, EmbeddedPostgres

__all__ = ["LOOPBACK", "EmbeddedPostgres"]
