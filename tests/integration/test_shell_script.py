"""`stafette shell` without a terminal: a script, its results, and the code it ends with."""

from __future__ import annotations

import asyncio
import re
import signal

import pytest

from stafette.errors import NotAuthenticated
from tests.support.brokers import Connect, StartBroker
from tests.support.command_line import COMMAND, clean_environment, run_here
from tests.support.waiting import until

NOWHERE = "stafette://127.0.0.1:1"


async def script(text: str, *options: str, **environment: str) -> tuple[int, str, str]:
    """The exit code of a script, and what it prints."""
    code, out, err = await asyncio.to_thread(
        run_here, ("shell", *options), stdin=text.encode(), environment=environment
    )
    return code, out.decode(), err.decode()


async def test_a_script(broker: str) -> None:
    text = r"""
        # a comment
        create jobs
        send jobs hello world
        send jobs priority=9
the first
  the second
.
        lease jobs
        ack
        receive jobs
        queues
    """
    code, out, err = await script(text, "--url", broker, "--name", "alice")
    assert (code, err) == (0, "")
    assert re.match(r"\d+\n\d+\nthe first\n  the second\nhello world\nname\tmessages\towner\tcreator\tcreated\n", out)


async def test_a_script_may_connect_by_itself(broker: str) -> None:
    code, out, err = await script(f"connect {broker} as alice\ncreate jobs\nsend jobs x\n", "--url", NOWHERE)
    assert (code, out.rstrip().isdigit(), err) == (0, True, "")


async def test_a_script_gives_back_what_it_holds(broker: str, connect: Connect) -> None:
    other = await connect("bob")
    await other.create_queue("jobs")
    [number] = await other.send("jobs", "work")
    code, out, err = await script("lease jobs seconds=3600\n", "--url", broker)
    assert (code, out, err) == (0, "work\n", f"message {number} was held and is given back to jobs\n")
    assert await other.peek("jobs") is not None


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("nonsense", 2, "there is no command nonsense"),
        ("ack", 2, "there is no held message"),
        ("send", 2, "Missing argument 'QUEUE'"),
        ("connect a b c", 2, "you are connected"),
        ("queues pryority=1", 2, "queues has no option pryority"),
        ("send jobs don't", 2, "a quotation mark is not closed"),
        ("send jobs\nno end", 2, "the body has no end"),
        ("send jobs x priority=99", 2, "'--priority': 99 is not in the range 1<=x<=10"),
        ("create jobs", 1, "queue jobs already exists"),
        ("receive nowhere", 4, "there is no queue nowhere"),
        ("receive jobs", 4, "no message in jobs"),
        ("receive jobs wait=0.1", 5, "no message in jobs within 0.1 seconds"),
        ("request jobs x timeout=0.1", 5, "no reply to the request in jobs came within 0.1 seconds"),
    ],
)
async def test_a_script_ends_at_the_first_error_with_its_code(broker: str, line: str, code: int, says: str) -> None:
    exit_code, out, err = await script(f"create jobs\n{line}\nping\n", "--url", broker)
    assert (exit_code, out) == (code, "")
    assert err.startswith("stafette: line 2: ")
    assert says in err
    assert err.count("\n") == 1


async def test_a_script_without_a_broker() -> None:
    code, out, err = await script("queues\n", "--url", NOWHERE)
    assert (code, out) == (3, "")
    assert "cannot reach a broker" in err
    assert err.count("\n") == 1


async def test_the_time_of_a_scripts_commands_is_apart_from_its_results(broker: str) -> None:
    code, out, err = await script("\\timing\ncreate jobs\nreceive nowhere\n", "--url", broker)
    assert (code, out) == (4, "")
    assert [line.split(":")[0] for line in err.splitlines()] == ["time", "stafette", "time"]


async def test_a_secret_is_for_its_name_alone(broker: str, connect: Connect) -> None:
    text = "disconnect\nconnect as bob\nping\n"
    code, _, err = await script(f"ping\n{text}", "--url", broker, "--name", "alice", STAFETTE_SECRET="of alice")
    assert (code, err) == (0, "")
    await connect("bob")  # without one
    with pytest.raises(NotAuthenticated):
        await connect("alice")
    code, _, err = await script("ping\n", "--url", broker, "--name", "alice")
    assert code == 1
    assert err.startswith("stafette: line 1: ")


async def test_a_script_keeps_going_when_told_to(broker: str) -> None:
    code, out, err = await script("receive nowhere\ncreate jobs\nsend jobs x\n", "--url", broker, "--keep-going")
    assert (code, out.rstrip().isdigit()) == (4, True)
    assert err == "stafette: line 1: there is no queue nowhere; create it first\n"


async def test_a_script_with_debug(broker: str) -> None:
    code, _, err = await script("receive nowhere\n", "--url", broker, "--debug")
    assert code == 4
    assert "Traceback" in err


async def test_ctrl_c_ends_a_script_that_waits(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers()
    other = await connect("bob", url)
    await other.create_queue("jobs")
    process = await asyncio.create_subprocess_exec(
        COMMAND, "shell", "--url", url,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=clean_environment(),
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(b"receive jobs wait=3600\nping\n")
    await until(lambda: len(runtime.core.waiting), other.ping)
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"")


async def test_a_reader_that_leaves_ends_a_script_quietly(broker: str, connect: Connect) -> None:
    other = await connect("bob")
    await other.create_queue("jobs")
    await other.send("jobs", "work")
    process = await asyncio.create_subprocess_shell(
        f"printf 'receive jobs\\nping\\n' | {{ {COMMAND} shell --url {broker}; echo $? >&2; }} | true",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env=clean_environment(),
    )  # fmt: skip
    _, err = await process.communicate()
    assert err == b"1\n"
    assert await other.peek("jobs") is not None  # nobody has seen it


async def test_bytes_come_through_a_pipe_as_they_are(broker: str, connect: Connect) -> None:
    other = await connect("bob")
    await other.create_queue("jobs")
    await other.send("jobs", "\x1b[2J")
    _, out, _ = await script("receive jobs\n", "--url", broker)
    assert out == "\x1b[2J\n"
