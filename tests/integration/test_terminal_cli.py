"""The command on a real terminal: what a person sees, is asked, and can interrupt."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

import stafette
from tests.support.command_line import COMMAND, CommandLine, assert_one_sentence, everything_up
from tests.support.command_line import stafette as command
from tests.support.waiting import TIMEOUT_SECONDS

STYLE = re.compile(r"\x1b\[[0-9;]*m")
CTRL_C = "c"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    with everything_up(tmp_path_factory.mktemp("terminal") / "data") as command_line:
        yield command_line


@pytest.fixture
def queue(cli: CommandLine) -> str:
    return cli("queue", "create", f"jobs-{next(_numbers)}").strip()


class Terminal:
    """A terminal with one command in it."""

    def __init__(self, cli: CommandLine, *arguments: str, program: str = str(COMMAND), **environment: str) -> None:
        settings: Any = cli.environment(TERM="xterm-256color", LC_ALL="C.UTF-8", **environment)
        self.process = pexpect.spawn(
            program, list(arguments), env=settings, encoding="utf-8", timeout=TIMEOUT_SECONDS, dimensions=(40, 100)
        )

    def shows(self, pattern: str) -> str:
        """Wait for a pattern; returns all output up to it."""
        self.process.expect(pattern)
        return str(self.process.before) + str(self.process.after)

    def end(self) -> tuple[int | None, str]:
        """Wait for the end; returns the exit code and the output until then."""
        self.process.expect(pexpect.EOF)
        self.process.close()
        return self.process.exitstatus, str(self.process.before).replace("\r\n", "\n")


def test_tables_are_for_people(cli: CommandLine, queue: str) -> None:
    with stafette.connect(cli.url, name="alice") as alice:
        alice.send_many([(queue, "x")] * 1234)
    code, output = Terminal(cli, "queue", "ls").end()
    assert code == 0
    assert "\x1b[1m" in output.splitlines()[0]  # the head is bold
    plain = STYLE.sub("", output)
    assert re.search(r"^name +messages +owner +creator +created", plain)
    assert re.search(rf"^{queue} +1,234 +- +cli-", plain, re.MULTILINE)
    code, output = Terminal(cli, "queue", "info", queue).end()
    assert re.search(r"^messages +1234 *$", STYLE.sub("", output), re.MULTILINE)


def test_a_message_has_a_head_and_can_do_no_harm(cli: CommandLine, queue: str) -> None:
    with stafette.connect(cli.url, name="mallory") as mallory:
        mallory.send(
            queue, b"title \x1b]0;gotcha\x07 colour \x1b[31m\r\x9b2J \xc2\x9b \xe2\x80\xae\ttab\nline \xc3\xbc"
        )
    code, output = Terminal(cli, "receive", queue).end()
    assert code == 0
    head, *body = output.splitlines()
    assert "\x1b[1;36m#" in head
    assert re.match(r"#\d+  from mallory  priority 5  20\d\d-\d\d-\d\d \d\d:\d\d:\d\d$", STYLE.sub("", head))
    assert body == [r"title \x1b]0;gotcha\x07 colour \x1b[31m\r\x9b2J \x9b \u202e" + "\ttab", "line ü"]


def test_deleting_asks_for_confirmation(cli: CommandLine, queue: str) -> None:
    cli.fed(b"a\nb\n", "send", queue, "--lines")
    for answer, is_purged in (("n", False), ("y", True)):
        terminal = Terminal(cli, "queue", "purge", queue)
        terminal.shows(rf"Purge queue {queue} with 2 messages\? \[y/N\]")
        terminal.process.sendline(answer)
        assert terminal.end()[0] == (0 if is_purged else 1)
        assert cli.json("queue", "info", queue)["messages"] == (0 if is_purged else 2)

    terminal = Terminal(cli, "queue", "rm", queue)
    terminal.shows(rf"Delete queue {queue}\? \[y/N\]")
    terminal.process.sendcontrol(CTRL_C)
    code, output = terminal.end()
    assert code != 0
    assert "Traceback" not in output
    cli("queue", "info", queue)
    assert Terminal(cli, "queue", "rm", queue, "--yes").end()[0] == 0
    cli("queue", "info", queue, code=4)

    with stafette.connect(cli.url, name="bob"):
        pass
    terminal = Terminal(cli, "client", "rm", "bob")
    terminal.shows("Delete client bob with its personal queue")
    terminal.process.sendline("y")
    assert terminal.end()[0] == 0
    cli("client", "info", "bob", code=4)


@pytest.mark.parametrize(
    "arguments",
    [
        ["receive", "QUEUE", "--wait", "60"],
        ["receive", "QUEUE", "--follow", "--lease"],
        ["peek", "QUEUE", "--wait", "60"],
        ["request", "QUEUE", "question", "--timeout", "60"],
        ["reply", "QUEUE", "answer", "--follow"],
    ],
)
def test_waiting_says_so_and_can_be_interrupted(cli: CommandLine, queue: str, arguments: list[str]) -> None:
    terminal = Terminal(cli, *[queue if word == "QUEUE" else word for word in arguments])
    terminal.shows(f"waiting for .*{queue}")
    terminal.process.sendcontrol(CTRL_C)
    code, output = terminal.end()
    assert code == 130
    assert "Traceback" not in output
    assert output.endswith("\r\x1b[K")  # nothing of it stays


def test_no_body_on_a_terminal_is_an_error(cli: CommandLine, queue: str) -> None:
    for name in ("send", "request", "reply"):
        code, output = Terminal(cli, name, queue).end()
        assert code == 2
        assert "no body to send" in output
    terminal = Terminal(cli, "send", queue, "-")
    terminal.process.sendline("typed")
    terminal.process.sendeof()
    assert terminal.end()[0] == 0
    assert cli("receive", queue) == "typed\n\n"


def test_a_pager_that_is_left_early(cli: CommandLine, queue: str) -> None:
    cli.fed(b"some line\n" * 2000, "send", queue, "--lines")
    line = f"set -o pipefail; {COMMAND} peek {queue} --all | head -1; echo ${{PIPESTATUS[0]}}"
    code, output = Terminal(cli, "--norc", "-c", line, program="bash").end()
    assert (code, output) == (0, "some line\n1\n")


def test_no_broker(cli: CommandLine) -> None:
    for name in ("send", "receive", "peek", "request", "reply"):
        code, output = Terminal(cli, name, "jobs", *(["x"] if name in ("send", "request", "reply") else []),
                               "--url", "stafette://127.0.0.1:1").end()  # fmt: skip
        assert code == 3
        assert output.count("\n") == 1
        assert "`stafette up`" in output
    for words in (("queue", "ls"), ("client", "ls")):
        assert_one_sentence(command(*words, "--url", "stafette://127.0.0.1:1"), 3, "`stafette up`")


def test_doctor_in_colours(cli: CommandLine) -> None:
    code, output = Terminal(cli, "doctor", "--data", str(cli.data / "postgres.log")).end()
    assert code == 1
    assert "\x1b[1;31mfail" in output
    assert "\x1b[32mok" in output
    assert "choose another with --data" in output


# Completion


@pytest.fixture
def bash(cli: CommandLine, tmp_path: Path) -> Iterator[Terminal]:
    """A bash that completes `stafette`."""
    (tmp_path / "completion").write_text(cli("completion", "bash"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "stafette").symlink_to(COMMAND)
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    terminal = Terminal(cli, "--norc", "--noprofile", program="bash", PATH=path, PS1="> ", INPUTRC="/dev/null")
    terminal.process.sendline(f"bind 'set enable-bracketed-paste off'; . {tmp_path / 'completion'}; echo rea''dy")
    terminal.shows("ready")
    yield terminal
    terminal.process.close(force=True)


def test_bash_completes_commands_options_queues_and_clients(cli: CommandLine, bash: Terminal) -> None:
    cli("queue", "create", "invoices")
    with stafette.connect(cli.url, name="hildegard"):
        pass
    for typed, completed in [
        ("stafette rec", "eive "),
        ("stafette receive --fol", "low "),
        ("stafette queue pu", "rge "),
        ("stafette send inv", "oices "),
        ("stafette send invoices x --to inv", "oices "),
        ("stafette client info hil", "degard "),
    ]:
        bash.process.send(f"{typed}\t")
        bash.shows(re.escape(typed + completed))
        bash.process.sendcontrol("u")


def test_completion_without_a_broker_is_silent(cli: CommandLine) -> None:
    for words, expected in ((["send", "inv"], ""), (["sen"], "send\n")):
        completed = subprocess.run(
            [COMMAND], capture_output=True, text=True, check=False,
            env=cli.environment(
                STAFETTE_URL="stafette://127.0.0.1:1", _STAFETTE_COMPLETE="complete_bash",
                COMP_WORDS=" ".join(["stafette", *words]), COMP_CWORD=str(len(words)),
            ),
        )  # fmt: skip
        assert (completed.returncode, completed.stdout.strip(), completed.stderr) == (0, expected.strip(), "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_for_each_shell(shell: str) -> None:
    script = command("completion", shell).stdout
    assert f"complete_{shell}" in script
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=script, text=True, check=True)
