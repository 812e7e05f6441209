"""The asynchronous client: ``await stafette.aio.connect(…)``."""

from stafette.client.aio import Client, connect
from stafette.client.lease import Lease

__all__ = ["Client", "Lease", "connect"]
