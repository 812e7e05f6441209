"""Stafette: durable message passing on PostgreSQL, with the laboratory that measures it.

::

    import stafette

    with stafette.connect("stafette://127.0.0.1:7470", name="alice") as me:
        me.create_queue("jobs", exist_ok=True)
        me.send("jobs", b"hello")

`stafette.aio.connect` is the same for asyncio. What is named here is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stafette import aio, errors
    from stafette.client.sync import Client, Lease, connect
    from stafette.errors import StafetteError
    from stafette.model import Message, Queue

__version__ = "0.1.0"

__all__ = ["Client", "Lease", "Message", "Queue", "StafetteError", "aio", "connect", "errors"]

_HOMES = {
    "Client": "stafette.client.sync",
    "Lease": "stafette.client.sync",
    "Message": "stafette.model",
    "Queue": "stafette.model",
    "StafetteError": "stafette.errors",
    "connect": "stafette.client.sync",
}


def __getattr__(name: str) -> object:
    if name in ("aio", "errors"):
        return importlib.import_module(f"stafette.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'stafette' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
