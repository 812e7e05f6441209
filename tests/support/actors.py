"""Who does things in the console's name."""

from stafette.database.audit import Actor

ADMIN = Actor("admin", "127.0.0.1")
