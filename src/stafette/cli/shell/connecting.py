"""How the shell finds its broker: the one that was named, the last one, or the one of the data folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from stafette import settings
from stafette.cli.broker_link import address, default_names
from stafette.cli.shell.commands import Talk
from stafette.client import aio
from stafette.client.aio import Client
from stafette.errors import AlreadyOnline, NotAuthenticated
from stafette.model import Mode

REQUEST_SECONDS = 10.0
"""How long a person waits for a broker that does not answer, before being told so."""


async def connect_to(talk: Talk, url: str | None = None, name: str | None = None, mode: Mode | None = None) -> None:
    """Connect; what is not said is as it was last, or else as the shell was called."""
    state, start = talk.state, talk.state.start
    chosen = settings.load(url=start.url, name=start.name, secret=start.secret, data=start.data)
    target = url or state.url
    if target is None:
        target = await asyncio.to_thread(address, start.url, start.data)
    wanted = mode or start.mode
    named = name or state.name or chosen.name
    # A name that was chosen for us may be taken by now; one that somebody chose is meant.
    free_choice = name is None and chosen.name is None
    names = [*([named] if named else []), *(default_names() if free_choice else [])]
    if chosen.secret and chosen.name:
        state.secrets.setdefault(chosen.name, chosen.secret)
    client = await _first_free(talk, target, names, wanted, None if chosen.name else chosen.secret)
    try:
        # Who was registered as read-only remains so, whatever it asks for.
        registered = (await client.client(client.name)).mode
    except BaseException:
        await client.close()
        raise
    state.connected(client, target, "full" if registered == wanted == "full" else "read-only")


async def _first_free(talk: Talk, url: str, names: Iterable[str], mode: Mode, secret: str | None) -> Client:
    taken: AlreadyOnline | None = None
    for name in names:
        try:
            return await _let_in(talk, url, name, mode, secret)
        except AlreadyOnline as error:
            taken = taken or error
    assert taken is not None
    raise taken


async def _let_in(talk: Talk, url: str, name: str, mode: Mode, secret: str | None) -> Client:
    """Connect under a name; whoever forgot its secret is asked for it, once. Nobody is given another's secret."""
    known = talk.state.secrets.get(name, secret)
    try:
        return await aio.connect(url, name=name, mode=mode, secret=known, timeout=REQUEST_SECONDS)
    except NotAuthenticated:
        asked = await talk.ask_secret()
        if not asked:
            raise
    client = await aio.connect(url, name=name, mode=mode, secret=asked, timeout=REQUEST_SECONDS)
    talk.state.secrets[name] = asked
    return client
