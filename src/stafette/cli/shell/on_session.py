"""Commands about the conversation itself: whom we talk to, and what can be said."""

from __future__ import annotations

from typing import Any

from stafette.cli.shell import show
from stafette.cli.shell.commands import Command, Talk, command, find, possible
from stafette.cli.shell.connecting import connect_to
from stafette.cli.shell.grammar import Usage, choice
from stafette.cli.shell.on_leases import give_back
from stafette.cli.shell.state import Need, place, unmet


@command(
    "connect [URL] [as NAME]",
    needs=(Need.NOT_CONNECTED,),
    at_most=3,
    words=("url", "as", "self"),
    options={"mode": choice("full", "read-only")},
)
async def connect(talk: Talk, *words: str, **options: Any) -> None:
    """Connect to a broker, by default to the last one and under the last name.

    URL is stafette://HOST:PORT, or HOST:PORT alone. If the name has a secret, it is asked for.
    """
    url: str | None = None
    name: str | None = None
    match words:
        case ():
            pass
        case ("as", name):
            pass
        case (url, "as", name):
            pass
        case (url,) if url != "as":
            pass
        case _:
            raise Usage("connect is written: connect [URL] [as NAME]")
    await connect_to(talk, url if url is None or "://" in url else f"stafette://{url}", name, **options)
    state = talk.state
    mode = ", read-only" if state.mode != "full" else ""
    show.remark(f"connected to {place(state.url or '')} as {show.harmless(talk.client.name)}{mode}")


@command("disconnect", needs=(Need.CONNECTED,), at_most=0)
async def disconnect(talk: Talk) -> None:
    """Hang up; a message that is held is given back."""
    await leave(talk)
    show.remark("disconnected")


async def leave(talk: Talk) -> None:
    """Hang up, if there is something to hang up."""
    await give_back(talk.state)
    client = talk.state.client
    talk.state.disconnected()
    if client is not None:
        await client.close()


@command("ping", needs=(Need.CONNECTED,), at_most=0)
async def ping(talk: Talk) -> None:
    """Say how long it takes to the broker and back."""
    show.result(f"{await talk.client.ping() * 1000:.2f} ms")


@command("help [COMMAND]", at_most=1, words=("command",), aliases=("?",))
async def help_(talk: Talk, name: str | None = None) -> None:
    """List what is possible now, or explain one command."""
    if name is None:
        listed = possible(talk.state)
        width = max(len(one.usage) for one in listed)
        show.result("\n".join(f"{one.usage:<{width}}  {one.summary}" for one in listed))
    else:
        show.result("\n".join(explained(find(name), talk)))


def explained(one: Command, talk: Talk) -> list[str]:
    """All there is to say about a command."""
    options = " ".join(f"[{name}={kind.shown}]" for name, kind in one.options.items())
    lines = [f"{one.usage} {options}".rstrip(), "", *one.help.splitlines()]
    if one.aliases:
        lines += ["", f"also: {', '.join(one.aliases)}"]
    if sentence := unmet(one.needs, talk.state):
        lines += ["", f"not possible now: {sentence}"]
    return lines


@command(r"\timing", at_most=0)
async def timing(talk: Talk) -> None:
    """Show how many milliseconds every command takes, or stop that."""
    talk.state.timing = not talk.state.timing
    show.remark(f"timing is {'on' if talk.state.timing else 'off'}")


@command("quit", at_most=0, aliases=(r"\q", "exit"))
async def quit_(talk: Talk) -> None:
    """Leave the shell, as Ctrl-D does; a message that is held is given back."""
    talk.state.over = True
