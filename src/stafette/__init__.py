"""Stafette: durable message passing on PostgreSQL, with the laboratory that measures it."""

__version__ = "0.1.0"
