"""`stafette send`, `receive`, `peek`, `request` and `reply`, as scripts use them."""

from __future__ import annotations

import fcntl
import itertools
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import stafette
from tests.support.command_line import COMMAND, CommandLine, assert_one_sentence, everything_up, line_of, outcome
from tests.support.command_line import stafette as command

EVERY_BYTE = bytes(range(256)) * 3
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with everything_up(tmp_path_factory.mktemp("messages") / "data") as command_line:
        yield command_line


@pytest.fixture
def queue(cli: CommandLine) -> str:
    """A queue of the test's own."""
    return cli("queue", "create", f"jobs-{next(_numbers)}").strip()


def test_a_message_goes_and_comes(cli: CommandLine, queue: str) -> None:
    assert cli("send", queue, "grüezi").strip().isdecimal()
    assert cli("peek", queue) == "grüezi\n"
    assert cli("receive", queue) == "grüezi\n"
    assert_one_sentence(command("receive", queue, STAFETTE_URL=cli.url), 4, f"no message for you in {queue}")
    waited = command("receive", queue, "--wait", "0.05", STAFETTE_URL=cli.url)
    assert_one_sentence(waited, 5, "within 0.05 seconds")
    assert_one_sentence(command("peek", queue, "--all", STAFETTE_URL=cli.url), 4, "no message")
    for name in ("receive", "peek", "send", "reply", "request"):
        assert_one_sentence(command(name, "nowhere", "--url", cli.url), 4, "there is no queue nowhere")


def test_bytes_are_the_same_at_the_other_end(cli: CommandLine, queue: str) -> None:
    cli.piped(EVERY_BYTE, "send", queue)
    cli.piped(EVERY_BYTE, "send", queue, "-")
    cli.piped(b"", "send", queue, b"\xff\xfetyped")  # on the command line, bytes need not be UTF-8 either
    cli.piped(b"", "send", queue, "-")
    assert cli.piped(b"", "receive", queue) == EVERY_BYTE + b"\n"
    assert cli.piped(b"", "receive", queue, "-n") == EVERY_BYTE
    assert cli.piped(b"", "receive", queue, "--all") == b"\xff\xfetyped\n\n"


def test_json_tells_everything(cli: CommandLine, queue: str) -> None:
    sent = cli.json("send", queue, "5 °C", "--priority", "9", "--context", "-7", "--header", "unit=a=b",
                    "--header", "place=", "--receiver", "cli-bob", "--allow-unknown", "--name", "alice")  # fmt: skip
    message = cli.json("peek", queue, "--name", "cli-bob")
    assert message.pop("arrived_at").startswith("20")
    assert message == {
        "id": sent["ids"][0], "queue": queue, "sender": "alice", "receiver": "cli-bob", "context": -7, "priority": 9,
        "deliveries": 0, "headers": {"unit": "a=b", "place": ""}, "body": "5 °C",
    }  # fmt: skip
    cli("peek", queue, code=4)  # it is for somebody else

    cli.fed(b"\xff", "send", queue)
    message = cli.json("receive", queue, "--sender", cli.json("queue", "info", queue)["creator"])
    assert (message["body"], message["body_base64"]) == (None, "/w==")


def test_one_message_in_several_queues_or_in_none(cli: CommandLine, queue: str) -> None:
    other = cli("queue", "create", f"{queue}-copy").strip()
    ids = cli("send", queue, "x", "--to", other).split()
    assert len(set(ids)) == 2
    cli("send", queue, "x", "--to", "nowhere", code=4)
    assert [cli("receive", name, "--all") for name in (queue, other)] == ["x\n", "x\n"]


def test_a_key_sends_once(cli: CommandLine, queue: str) -> None:
    first = cli("send", queue, "once", "--key", f"{queue}-1")
    assert cli("send", queue, "once", "--key", f"{queue}-1") == first
    assert_one_sentence(command("send", queue, "other", "--key", f"{queue}-1", "--url", cli.url), 1, "key")
    assert cli("receive", queue, "--all") == "once\n"


def test_delay_and_time_to_live(cli: CommandLine, queue: str) -> None:
    cli("send", queue, "later", "--delay", "3600")
    cli("send", queue, "soon", "--delay", "0.2")
    assert cli("receive", queue, "--wait", "30") == "soon\n"
    cli("send", queue, "gone", "--ttl", "0.001")
    cli("receive", queue, code=4)


def test_each_line_is_a_message(cli: CommandLine, queue: str) -> None:
    lines = [b"%d" % number for number in range(2500)] + [b"\xff\r", b"", b"no newline at the end"]
    ids = cli.fed(b"\n".join(lines), "send", queue, "--lines").split()
    assert len(set(ids)) == len(lines)
    assert cli.fed(b"", "receive", queue, "--all", "--order", "arrival").split(b"\n") == [*lines, b""]

    sent = json.loads(cli.fed(b"a\nb\n", "send", queue, "--lines", "--json", "--priority", "8"))
    messages = [json.loads(line) for line in cli("peek", queue, "--all", "--json").splitlines()]
    assert [message["id"] for message in messages] == sent["ids"]
    assert {message["priority"] for message in messages} == {8}


def test_lines_are_sent_while_more_may_come(cli: CommandLine, queue: str) -> None:
    with cli.start("send", queue, "--lines", stdin=subprocess.PIPE) as sending:
        assert sending.stdin is not None
        sending.stdin.write(b"first\nhalf")
        sending.stdin.flush()
        assert line_of(sending).strip().isdigit()
        assert cli("receive", queue) == "first\n"
        assert outcome(sending)[0] == 0  # which closes its standard input
    assert cli("receive", queue) == "half\n"


def test_several_in_the_order_asked_for(cli: CommandLine, queue: str) -> None:
    for body, priority in (("low", "2"), ("high", "9"), ("middle", "5")):
        cli("send", queue, body, "--priority", priority, "--context", priority, "--name", f"sender-{priority}")
    assert cli("peek", queue) == "high\n"
    assert cli("peek", queue, "--order", "arrival") == "low\n"
    assert cli("peek", queue, "--all") == "low\nhigh\nmiddle\n"
    assert cli("peek", queue, "--count", "2", "--order", "priority") == "high\nmiddle\n"
    assert cli("peek", queue, "--all", "--sender", "sender-5") == "middle\n"
    assert cli("peek", queue, "--all", "--context", "9") == "high\n"
    assert cli("receive", queue, "--context", "2") == "low\n"
    assert cli("receive", queue, "--count", "5", "--order", "arrival") == "high\nmiddle\n"


def test_browsing_goes_on_after_a_page(cli: CommandLine, queue: str) -> None:
    cli.fed(b"".join(b"%d\n" % number for number in range(250)), "send", queue, "--lines")
    assert cli("peek", queue, "--all").split() == [str(number) for number in range(250)]
    assert cli("peek", queue, "--count", "120").split() == [str(number) for number in range(120)]


def test_a_broken_pipe_is_no_news(cli: CommandLine, queue: str) -> None:
    cli.fed(b"x" * 50_000 + b"\n" + b"y\n" * 500, "send", queue, "--lines")
    reading = cli.start("receive", queue, "--all")
    assert reading.stdout is not None
    assert reading.stderr is not None
    assert reading.stdout.read(1) == b"x"
    reading.stdout.close()
    assert (reading.wait(), reading.stderr.read()) == (1, b"")
    reading.stderr.close()


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("lease", [[], ["--lease"]])
def test_an_interrupt_waits_for_what_has_been_taken(
    cli: CommandLine, queue: str, lease: list[str], unbuffered: str
) -> None:
    cli.fed((b"x" * 30_000 + b"\n") * 100, "send", queue, "--lines")
    environment = cli.environment(PYTHONUNBUFFERED=unbuffered)
    with cli.start("receive", queue, "--all", *lease, env=environment) as reading:
        assert reading.stdout is not None
        fcntl.fcntl(reading.stdout, fcntl.F_SETPIPE_SZ, 4096)
        first = reading.stdout.read(1)  # it prints, and the pipe cannot hold even one
        reading.send_signal(signal.SIGINT)
        code, rest, err = outcome(reading)
    assert (code, err) == (130, b"")
    output = first + rest
    assert output.endswith(b"\n")
    remaining = cli.json("queue", "info", queue)["messages"]
    assert output.count(b"\n") + remaining == 100


def test_a_lease_loses_nothing_in_a_broken_pipe(cli: CommandLine, queue: str) -> None:
    bodies = [b"%05d" % number + b"x" * 30_000 for number in range(20)]
    cli.fed(b"\n".join(bodies), "send", queue, "--lines")
    reading = cli.start("receive", queue, "--all", "--lease", "--order", "arrival")
    assert reading.stdout is not None
    assert reading.stderr is not None
    head = reading.stdout.read(len(bodies[0]) + 1)
    reading.stdout.close()
    assert (reading.wait(), reading.stderr.read()) == (1, b"")
    reading.stderr.close()
    assert head == bodies[0] + b"\n"
    remaining = cli.json("queue", "info", queue)["messages"]
    assert 15 <= remaining < len(bodies)  # a pipe holds two or three that were written and not read; the rest is back
    rest = cli.fed(b"", "receive", queue, "--all", "--lease", "--order", "arrival")
    assert rest == b"".join(body + b"\n" for body in bodies[len(bodies) - remaining :])
    cli("receive", queue, code=4)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_cannot_be_written(cli: CommandLine, queue: str, unbuffered: str) -> None:
    cli("send", queue, "kept")
    with Path("/dev/full").open("wb") as full:
        completed = subprocess.run(
            [COMMAND, "receive", queue, "--lease"], env=cli.environment(PYTHONUNBUFFERED=unbuffered),
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert completed.returncode == 1
    assert completed.stderr == "stafette: cannot write the output: No space left on device\n"
    assert cli("receive", queue) == "kept\n"


def test_following_until_interrupted(cli: CommandLine, queue: str) -> None:
    for lease in ([], ["--lease"]):
        following = cli.start("receive", queue, "--follow", *lease)
        for body in ("one", "two"):
            cli("send", queue, body)
            assert line_of(following).decode() == f"{body}\n"
        following.send_signal(signal.SIGINT)
        assert outcome(following) == (130, b"", b"")
    cli("receive", queue, code=4)
    with cli.start("receive", queue, "--follow", "--count", "2") as counting:
        cli.fed(b"a\nb\nc\n", "send", queue, "--lines")
        assert outcome(counting) == (0, b"a\nb\n", b"")


def test_request_and_reply(cli: CommandLine, queue: str) -> None:
    with cli.start("reply", queue, "--exec", "tr a-z A-Z", "--follow") as replying:
        assert cli("request", queue, "chf") == "CHF\n"
        assert cli.fed(EVERY_BYTE, "request", queue, "-n") == EVERY_BYTE.upper()
        assert cli.json("request", queue, "eur", "--timeout", "30")["body"] == "EUR"
        replying.send_signal(signal.SIGINT)
        code, out, err = outcome(replying)
    assert (code, len(out.split()), err) == (130, 3, b"")

    assert_one_sentence(
        command("request", queue, "x", "--timeout", "0.1", "--url", cli.url),
        5,
        "no reply to the request in .* came within 0.1 seconds",
    )
    with cli.start("request", queue, "?") as asking:
        answered = cli.json("reply", queue, "42", "--wait", "30")
        assert answered["request"]["body"] == "?"
        assert outcome(asking) == (0, b"42\n", b"")
    cli("reply", queue, "x", code=4)
    cli("reply", queue, "x", "--wait", "0.05", code=5)


def test_a_request_that_a_command_fails_at_is_back_in_the_queue(cli: CommandLine, queue: str) -> None:
    cli("send", queue, "difficult")
    failed = command("reply", queue, "--exec", "exit 3", "--url", cli.url)
    assert_one_sentence(failed, 1, "the command ended with exit code 3; request [0-9]+ is back in")
    assert cli.json("receive", queue, "--wait", "30")["deliveries"] == 1


def test_a_command_that_leaves_its_input_unread_still_answers(cli: CommandLine, queue: str) -> None:
    with cli.start("reply", queue, "--exec", "echo done", "--wait", "30") as replying:
        assert cli.fed(b"x" * 500_000, "request", queue) == b"done\n\n"
        assert outcome(replying)[0] == 0


def test_terminals_with_the_default_name_do_not_collide(cli: CommandLine, queue: str) -> None:
    waiting = [cli.start("receive", queue, "--wait", "60") for _ in range(3)]
    cli.fed(b"a\nb\nc\n", "send", queue, "--lines")
    assert sorted(outcome(each) for each in waiting) == [(0, body, b"") for body in (b"a\n", b"b\n", b"c\n")]
    with stafette.connect(cli.url, name="alice"):
        refused = command("send", queue, "x", "--name", "alice", STAFETTE_URL=cli.url)
        assert_one_sentence(refused, 1, "alice")  # a name that was chosen is not changed


def test_where_the_broker_is(cli: CommandLine, queue: str) -> None:
    nobody = "stafette://127.0.0.1:1"
    data = str(cli.data)
    assert command("send", queue, "x", "--data", data).returncode == 0
    assert command("send", queue, "x", STAFETTE_DATA=data).returncode == 0
    assert command("send", queue, "x", "--data", data, STAFETTE_URL=nobody).returncode == 0
    assert command("send", queue, "x", "--url", cli.url, STAFETTE_URL=nobody).returncode == 0
    assert_one_sentence(command("send", queue, "x", "--url", nobody, "--data", data), 3, "`stafette up`")
    assert_one_sentence(command("send", queue, "x", STAFETTE_DATA=data, STAFETTE_URL=nobody), 3, "`stafette up`")
    other = str(cli.data.parent / "other")
    assert_one_sentence(command("send", queue, "x", "--data", other), 3, f"`stafette up --data {other}`")


def test_secrets_open_a_name(cli: CommandLine, queue: str) -> None:
    cli("send", queue, "x", "--name", "carol", STAFETTE_SECRET="sesame")
    cli("send", queue, "x", "--name", "carol", "--secret", "sesame")
    refused = command("send", queue, "x", "--name", "carol", "--url", cli.url, STAFETTE_SECRET="other")
    assert_one_sentence(refused, 1, "secret")


@pytest.mark.parametrize(
    "arguments",
    [
        ["send"],
        ["send", "jobs", "x", "--colour", "red"],
        ["send", "jobs", "x", "--priority", "11"],
        ["send", "jobs", "x", "--delay", "-1"],
        ["send", "jobs", "x", "--header", "nothing"],
        ["send", "jobs", "x", "--lines"],
        ["send", "jobs", "--lines", "--key", "k"],
        ["receive", "jobs", "--count", "0"],
        ["receive", "jobs", "--count", "2", "--all"],
        ["receive", "jobs", "--follow", "--wait", "1"],
        ["receive", "jobs", "--order", "size"],
        ["reply", "jobs", "x", "--exec", "cat"],
        ["completion", "tcsh"],
        ["sned", "jobs"],
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(arguments: list[str]) -> None:
    completed = command(*arguments, STAFETTE_URL="stafette://127.0.0.1:1")
    assert completed.returncode == 2
    assert completed.stdout == ""
    assert "Traceback" not in completed.stderr


def test_debug_counts_anywhere_but_is_text_after_two_hyphens(cli: CommandLine, queue: str) -> None:
    completed = command("receive", "nowhere", "--debug", STAFETTE_URL=cli.url)
    assert "Traceback" in completed.stderr
    cli("send", queue, "--", "--debug")
    assert cli("receive", queue) == "--debug\n"


def in_shell(line: str, cli: CommandLine) -> subprocess.CompletedProcess[str]:
    """Run a line in which $0 is the command."""
    return subprocess.run(
        ["/bin/sh", "-c", line, COMMAND], env=cli.environment(), capture_output=True, text=True, check=False
    )


def test_streams_that_are_closed(cli: CommandLine, queue: str) -> None:
    assert in_shell(f'"$0" send {queue} <&-', cli).returncode == 0  # nothing to read is an empty body
    assert_one_sentence(in_shell(f'"$0" receive {queue} >&-', cli), 1, "standard output is closed")
    nothing_said = in_shell(f'"$0" receive {queue} --count 2 2>&-', cli)
    assert (nothing_said.returncode, nothing_said.stdout) == (0, "\n")
    nothing_said = in_shell(f'"$0" receive {queue} 2>&-', cli)
    assert (nothing_said.returncode, nothing_said.stdout) == (4, "")
