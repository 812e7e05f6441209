"""`stafette shell` as people use it, at a terminal."""

from __future__ import annotations

import re
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import stafette.aio
from tests.support.broker_processes import BrokerProcess, Brokers, broker_processes
from tests.support.brokers import Connect, StartBroker
from tests.support.terminal import CTRL_C, CTRL_D, TAB, UP, Terminal, terminal
from tests.support.waiting import until

Shell = Callable[..., Awaitable[Terminal]]

NOWHERE = "stafette://127.0.0.1:1"


@pytest.fixture
async def shell(broker: str, tmp_path: Path) -> AsyncIterator[Shell]:
    """Starts shells, by name, and waits for their first prompt; they share an empty home folder."""
    async with AsyncExitStack() as stack:

        async def start(name: str, *options: str, url: str = broker) -> Terminal:
            arguments = ("shell", "--url", url, "--name", name, *options)
            screen = await stack.enter_async_context(terminal(*arguments, XDG_STATE_HOME=str(tmp_path)))
            await screen.prompts()
            return screen

        yield start


async def test_a_whole_session(shell: Shell, broker: str) -> None:
    screen = await shell("alice")
    address = broker.removeprefix("stafette://")
    assert screen.line == f"alice@{address}>"
    await screen.shows(f"alice at {broker}")  # in the toolbar

    assert await screen.run("create jobs") == ["queue jobs is ready"]
    [number] = await screen.run("send jobs hello world priority=7")
    assert await screen.run("send jobs -- a=b") == [str(int(number) + 1)]
    names, own, jobs = await screen.run("queues")
    assert names.split() == ["name", "messages", "owner", "creator", "created"]
    assert own.split()[:4] == ["@alice", "0", "alice", "alice"]
    assert jobs.split()[:4] == ["jobs", "2", "-", "alice"]
    head = f"message {number}, in jobs, from alice, priority 7, 11 bytes"
    assert await screen.run("peek jobs") == [head, "hello world"]
    assert len(await screen.run("browse jobs")) == 4
    assert await screen.run("receive jobs") == [head, "hello world"]
    assert (await screen.run("receive jobs order=arrival"))[1] == "a=b"
    assert await screen.run("receive jobs") == ["no message in jobs"]
    assert await screen.run("delete jobs") == ["queue jobs is deleted"]
    assert await screen.run("receive jobs") == ["error: there is no queue jobs; create it first"]
    assert (await screen.run("clients"))[1].split()[:2] == ["alice", "full"]
    assert (await screen.run("ping"))[0].endswith(" ms")
    assert await screen.run("receive jobs priority=3") == [
        "error: receive has no option priority; it has wait, count, all, follow, sender, context, order, no-newline,"
        " json; words after -- are not options"
    ]

    assert await screen.run("disconnect") == ["disconnected"]
    assert screen.line == "not connected>"
    assert await screen.run("queues") == [
        "error: queues is not possible now: you are not connected; type `connect` first",
    ]
    assert await screen.run(f"connect {address} as bob") == [f"connected to {address} as bob"]
    assert screen.line == f"bob@{address}>"
    await screen.run("disconnect")
    assert await screen.run("connect") == [f"connected to {address} as bob"]
    screen.type("quit\r")
    assert await screen.ends() == 0


async def test_leases(shell: Shell, connect: Connect) -> None:
    other = await connect("bob")
    await other.create_queue("jobs")
    [number] = await other.send("jobs", "work")
    screen = await shell("alice")

    assert not any(row.startswith("ack ") for row in await screen.run("help"))
    assert await screen.run("ack") == ["error: ack is not possible now: there is no held message; `lease` one first"]
    assert (await screen.run("lease jobs seconds=600"))[1] == "work"
    assert screen.line.endswith("*>")
    await screen.shows(f"lease on message {number} of jobs: ")
    assert any(row.startswith("ack ") for row in await screen.run("help"))
    assert await screen.run("lease jobs") == [
        "error: lease is not possible now: there is a held message; `ack` or `nack` it first"
    ]
    assert await screen.run("extend 1000") == [f"message {number} is held for 1000 seconds from now"]
    await screen.until(lambda: re.search(r"jobs: (9\d\d|1000) s left", screen.text) is not None)
    assert await other.peek("jobs") is None
    assert await screen.run("nack") == [f"message {number} is given back"]
    assert not screen.line.endswith("*>")
    assert await screen.run("lease") == ["no message in @alice"]
    assert await screen.run("lease sender=carol") == ["error: there is no client carol"]
    assert "delivery 2" in (await screen.run("lease jobs"))[0]
    assert await screen.run("ack") == [f"message {number} is acknowledged"]
    assert (await other.queue("jobs")).messages == 0

    [number] = await other.send("jobs", "later")
    await screen.run("lease jobs")
    assert await screen.run("nack 3600") == [f"message {number} is given back, ready in 3600 seconds"]
    assert await screen.run("receive jobs") == ["no message in jobs"]


@pytest.mark.parametrize("leaving", [CTRL_D, "quit\r", "disconnect\r"])
async def test_leaving_gives_back_what_is_held_and_says_so(shell: Shell, connect: Connect, leaving: str) -> None:
    other = await connect("bob")
    await other.create_queue("jobs")
    [number] = await other.send("jobs", "work")
    screen = await shell("alice")
    await screen.run("lease jobs seconds=3600")
    screen.type(leaving)
    await screen.shows(f"message {number} was held and is given back to jobs")
    if "disconnect" not in leaving:
        assert await screen.ends() == 0
    message = await other.receive("jobs", wait=60)
    assert message is not None


async def test_a_lease_that_runs_out_is_reported(shell: Shell, connect: Connect) -> None:
    other = await connect("bob")
    await other.create_queue("jobs")
    [number] = await other.send("jobs", "work")
    screen = await shell("alice")
    await screen.run("lease jobs seconds=1")
    await screen.shows(f"lease on message {number} of jobs: ran out")
    await screen.prompts(">")
    assert not screen.line.endswith("*>")
    rows = await screen.run("ack")
    assert rows[0].startswith(f"the lease on message {number} ran out")
    assert rows[1] == "error: ack is not possible now: there is no held message; `lease` one first"


async def test_a_request_and_its_reply_between_two_shells(shell: Shell) -> None:
    alice, bob = await shell("alice"), await shell("bob")
    await alice.run("create questions")
    alice.type("request questions what is it? timeout=60\r")
    assert (await bob.run("lease questions wait=60"))[1] == "what is it?"
    await bob.run("reply it is late")
    assert not bob.line.endswith("*>")
    assert (await alice.output("request questions what is it? timeout=60"))[1] == "it is late"
    assert await bob.run("browse questions") == ["no message in questions"]

    await alice.run("send @bob 'come here'")
    assert (await bob.run("waiting"))[1].split()[:2] == ["@bob", "1"]
    assert (await bob.run("receive"))[1] == "come here"
    await bob.run("reply no")
    assert (await alice.run("receive wait=60"))[1] == "no"
    assert await alice.run("request questions anybody? timeout=3") == [
        "error: no reply to the request in questions came within 3 seconds"
    ]


async def test_ctrl_c_ends_a_wait_and_loses_nothing(shell: Shell, connect: Connect, brokers: StartBroker) -> None:
    runtime, url = await brokers()
    other = await connect("bob", url)
    await other.create_queue("jobs")
    screen = await shell("alice", url=url)
    for command in ("receive jobs wait=3600", "lease jobs wait=3600", "peek jobs wait=3600"):
        screen.type(f"{command}\r")
        while not len(runtime.core.waiting):
            await other.ping()
        screen.type(CTRL_C)
        rows = await screen.output(command)
        assert rows[-1].endswith("cancelled"), rows
        [number] = await other.send("jobs", command)
        message = await other.receive("jobs", wait=60)  # nobody else waits for it
        assert message is not None
        assert message.id == number
    assert (await screen.run("ping"))[0].endswith(" ms")
    assert await screen.run("receive jobs wait=0.1") == ["no message in jobs within 0.1 seconds"]


async def test_ctrl_c_at_the_prompt_clears_the_line(shell: Shell) -> None:
    screen = await shell("alice")
    screen.type("delete everything")
    await screen.until(lambda: screen.line.endswith("delete everything"))
    screen.type(CTRL_C)
    await screen.prompts()
    assert len(await screen.run("queues")) == 2


async def test_a_body_of_several_lines(shell: Shell) -> None:
    screen = await shell("alice")
    await screen.run("create jobs")
    screen.type("send jobs\r")
    await screen.shows("type the body, and end it with a line that has only a dot:")
    for line in ("first", "  second", "."):
        await screen.until(lambda: screen.line == "|")
        screen.type(f"{line}\r")
    await screen.prompts()
    assert (await screen.run("receive jobs"))[1:] == ["first", "  second"]
    screen.type("send jobs\r")
    await screen.until(lambda: screen.line == "|")
    screen.type(f"never{CTRL_C}")
    await screen.shows("nothing is sent")
    await screen.prompts()
    assert await screen.run("receive jobs") == ["no message in jobs"]


async def test_bodies_do_not_steer_the_terminal(shell: Shell, connect: Connect) -> None:
    other = await connect("bob")
    await other.create_queue("jobs")
    for body in (b"\x1b[2J\x1b]0;mine\x07gone\x9b", "\x1b[2J\x1b]0;mine\x07gone", b"\xff\x1b"):
        await other.send("jobs", body)
    screen = await shell("alice")
    rows = await screen.run("browse jobs")
    assert rows[1] == "1b 5b 32 4a 1b 5d 30 3b 6d 69 6e 65 07 67 6f 6e 65 9b"
    assert rows[3] == r"\x1b[2J\x1b]0;mine\x07gone"
    assert rows[5] == "ff 1b"
    assert b"\x1b]0;mine" not in screen.raw


async def test_tab_completes_commands_names_and_options(shell: Shell, connect: Connect) -> None:
    other = await connect("bob-the-builder")
    await other.create_queue("jobs-of-today")
    screen = await shell("alice")

    async def completes(typed: str, line: str) -> None:
        screen.type(f"{typed}{TAB}")
        await screen.until(lambda: screen.line.endswith(f"> {line}"))

    await completes("se", "send")
    await completes("jo", "send jobs-of-today")
    await completes("rec", "send jobs-of-today receiver=")
    await completes("bob", "send jobs-of-today receiver=bob-the-builder")
    screen.type("hi\r")
    [number] = await screen.output("send jobs-of-today receiver=bob-the-builder hi")
    assert (await other.browse("jobs-of-today"))[0].id == int(number)

    screen.type(f"ac{TAB}k\r")  # no lease is held: nothing to complete
    await screen.output("ack")


async def test_history_reaches_the_next_session(shell: Shell, tmp_path: Path) -> None:
    screen = await shell("alice")
    await screen.run("create jobs")
    await screen.run("help ping")
    await screen.run(" send jobs not to be kept")
    await screen.run("connect a:1 as b secret=abc")
    screen.type(CTRL_D)
    await screen.ends()
    path = tmp_path / "stafette" / "shell_history"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "abc" not in path.read_text()

    screen = await shell("alice")
    screen.type(UP)
    await screen.until(lambda: screen.line.endswith("> help ping"))
    screen.type(UP)
    await screen.until(lambda: screen.line.endswith("> create jobs"))


async def test_timing(shell: Shell) -> None:
    screen = await shell("alice")
    assert len(await screen.run("ping")) == 1
    assert await screen.run(r"\timing") == ["timing is on"]
    for command in ("ping", "nonsense", "receive nowhere"):
        rows = await screen.run(command)
        assert rows[-1].startswith("time: ") == (command != "nonsense"), rows
    await screen.shows("timing on, last ")
    assert await screen.run(r"\timing") == ["timing is off"]
    assert len(await screen.run("ping")) == 1
    screen.type("\\q\r")
    assert await screen.ends() == 0


async def test_read_only_hides_what_changes_something(shell: Shell, connect: Connect, broker: str) -> None:
    await (await connect("bob")).create_queue("jobs")
    screen = await shell("alice", "--read-only")
    assert screen.line.endswith("(read-only)>")
    listed = {row.split()[0] for row in await screen.run("help")}
    assert {"peek", "browse", "queues"} <= listed
    assert not {"send", "receive", "lease", "create", "delete", "request"} & listed
    assert await screen.run("send jobs hi") == ["error: send is not possible now: this connection is read-only"]
    await screen.run("disconnect")
    await screen.run(f"connect {broker} as alice mode=full")  # it was registered as read-only, and remains so
    assert screen.line.endswith("(read-only)>")


async def test_a_secret_is_asked_for_and_not_shown(shell: Shell, connect: Connect, broker: str) -> None:
    await (await connect("carol", secret="open sesame")).close()
    screen = await shell("alice")
    await screen.run("disconnect")
    screen.type(f"connect {broker} as carol\r")
    await screen.until(lambda: screen.line == "secret:")
    screen.type("open sesame\r")
    await screen.prompts()
    assert screen.line.startswith("carol@")
    assert "sesame" not in screen.text
    await screen.run("disconnect")
    await screen.run("connect as carol")  # it is known by now
    assert screen.line.startswith("carol@")
    screen.type(UP)
    await screen.until(lambda: screen.line.endswith("> connect as carol"))


# When things break


async def test_without_a_broker_there_is_a_shell_that_says_so(shell: Shell, broker: str) -> None:
    screen = await shell("alice", url=NOWHERE)
    assert screen.line == "not connected>"
    assert "error: cannot reach a broker at 127.0.0.1:1" in screen.text
    assert "stafette up" in screen.text
    assert "Traceback" not in screen.text
    assert {row.split()[0] for row in await screen.run("help")} == {"connect", "help", "\\timing", "quit"}
    await screen.run(f"connect {broker}")
    assert screen.line.startswith("alice@")


@pytest.fixture
async def processes(database: str, tmp_path: Path) -> AsyncIterator[Brokers]:
    async with broker_processes(database, tmp_path / "data") as brokers:
        yield brokers


LOST = "the connection to the broker is lost; looking for one for up to 10 s"


async def parked(processes: Brokers, broker: BrokerProcess) -> None:
    """Wait until a read is parked."""

    async def is_parked() -> bool:
        return bool((await processes.status())[broker.pid]["parked"])

    await until(is_parked)


async def test_a_broker_that_dies_is_told_in_a_line_and_the_shell_goes_on(shell: Shell, processes: Brokers) -> None:
    broker = await processes.start()
    screen = await shell("alice", url=broker.url)
    await screen.run("create jobs")
    await screen.run("send jobs work")
    await screen.run("lease jobs seconds=3600")
    screen.type("peek jobs wait=3600\r")
    await parked(processes, broker)
    await broker.kill()
    *lines, error = await screen.output("peek jobs wait=3600")
    assert lines == [LOST]
    assert error.startswith("error: ")
    assert error.endswith("; the next command tries again")
    assert screen.line.endswith("(no broker)*>")
    assert await screen.run("queues") == [
        f"error: no broker is reachable at 127.0.0.1:{broker.port}; to use another one, `disconnect` and `connect`"
    ]

    await processes.start("--port", str(broker.port))
    again, *rows = await screen.run("queues")
    assert again == f"there is a connection again, to 127.0.0.1:{broker.port}"
    assert len(rows) == 3
    assert screen.line == f"alice@127.0.0.1:{broker.port}*>"
    assert (await screen.run("ack"))[0].endswith(" is acknowledged")  # the lease outlived the broker


async def test_a_read_goes_on_when_a_broker_is_back(shell: Shell, processes: Brokers) -> None:
    broker = await processes.start()
    screen = await shell("alice", url=broker.url)
    screen.type("peek @alice wait=3600\r")
    await parked(processes, broker)
    await broker.kill()
    await screen.shows(LOST)
    again = await processes.start("--port", str(broker.port))
    await screen.shows(f"there is a connection again, to 127.0.0.1:{broker.port}")
    await parked(processes, again)
    async with await stafette.aio.connect(again.url, name="bob") as bob:
        await bob.send("@alice", "at last")
    assert (await screen.output("peek @alice wait=3600"))[-1] == "at last"


async def test_leaving_when_the_broker_is_gone(shell: Shell, processes: Brokers) -> None:
    broker = await processes.start()
    screen = await shell("alice", url=broker.url)
    await screen.run("create jobs")
    await screen.run("send jobs work")
    await screen.run("lease jobs seconds=3600")
    await broker.kill()
    lost, error = await screen.run("ping")
    assert lost == LOST
    assert error.startswith(f"error: cannot reach a broker at 127.0.0.1:{broker.port}")
    given_back, disconnected = await screen.run("disconnect")
    assert given_back.endswith("could not be given back; it returns to jobs when its lease runs out")
    assert disconnected == "disconnected"
    assert screen.line == "not connected>"
    screen.type(CTRL_D)
    assert await screen.ends() == 0


async def test_debug_shows_the_traceback(shell: Shell) -> None:
    plain, debugging = await shell("alice"), await shell("bob", "--debug")
    assert await plain.run("receive nowhere") == ["error: there is no queue nowhere; create it first"]
    rows = await debugging.run("receive nowhere")
    assert any("Traceback" in row for row in rows)
    assert rows[-1] == "error: there is no queue nowhere; create it first"
