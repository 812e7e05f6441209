"""A tour of everything: start it, pass messages, run an experiment under the console's eyes, show what it measured.

    make demo                           leaves everything up, in .demo/
    make demo STOP=--stop               stops it at the end
    .venv/bin/python examples/demo.py --help

The experiment is run by the console, as if somebody had clicked: so its page shows it live, and the report after it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from rich.console import Console as Terminal
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

HERE = Path(__file__).resolve().parent
STAFETTE = Path(sys.executable).with_name("stafette")
BROKER_PORT, WEB_PORT = 7470, 7471
STEPS = 4
SILENCE_SECONDS = 60.0  # the console says something at least every ten
BROKEN_OFF = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)

terminal = Terminal(highlight=False, soft_wrap=True)


class Failed(Exception):
    """What went wrong, in a sentence."""


# What the reader sees


def step(number: int, sentence: str) -> None:
    terminal.print(Text(f"\n{number}/{STEPS}  {sentence}", style="bold"))


def say(line: str, style: str = "") -> None:
    terminal.print(Text(f"     {line}", style=style))


class Waiting:
    """A line that moves on a terminal, so that nobody thinks it hangs; elsewhere a line for each new phase."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("")
        self._phase = ""

    def now(self, phase: str, more: str = "") -> None:
        self._progress.update(self._task, description=f"{phase}  {more}")
        if phase != self._phase and not terminal.is_terminal:
            say(phase)
            sys.stdout.flush()
        self._phase = phase


@contextmanager
def waiting() -> Iterator[Waiting]:
    columns = (TextColumn("    "), SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        yield Waiting(progress)


# Commands


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, also when Ctrl-C comes meanwhile: what is half started could not be stopped."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # What the reader has set for a system of their own must not lead the demo there.
        env={name: value for name, value in os.environ.items() if not name.startswith("STAFETTE_")},
    )
    try:
        out, errors = process.communicate()
    except KeyboardInterrupt:
        process.communicate()
        raise
    if process.returncode != 0:
        said = errors.strip().rpartition("\n")[2].removeprefix("stafette: ") or f"exit code {process.returncode}"
        raise Failed(f"`{shlex.join(str(part) for part in command)}` failed: {said}")
    return subprocess.CompletedProcess(command, 0, out, errors)


def free(port: int) -> int:
    """The port if nobody has it, else 0, which takes any."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return 0
    return port


def shown(path: Path) -> str:
    """A path as one would type it here."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def typed(data: Path, *command: str) -> str:
    """A command as one would type it here."""
    return shlex.join([shown(STAFETTE), *command, "--data", shown(data)])


# The console


class Console:
    """The web console, asked as its own pages ask it, with the administrator's secret instead of a session."""

    def __init__(self, url: str, secret: str) -> None:
        self.url = url
        self._place = urlsplit(url).netloc
        self._headers = {"Authorization": f"Bearer {secret}"}

    def save(self, name: str, text: str) -> None:
        """Keep an experiment among those of the console, in place of one that has its name."""
        known = self._ask("GET", f"/lab/experiments/{name}").status == 200
        self._change("/lab/experiments", text=text, before=name if known else "")

    def queue(self, name: str, profile: str) -> str:
        """Let an experiment run, and be analysed, when its turn comes; the number of the job."""
        address = self._change("/lab/queue", kind="own", name=name, profile=profile, new="true", analyse="true")
        return address.rpartition("/")[2]

    def events(self, job: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """What the live page of a job is told, to its end."""
        answer, name = self._ask("GET", f"/lab/queue/{job}/events", whole=False), ""
        try:
            while line := answer.readline().decode():
                key, _, value = line.rstrip("\n").partition(": ")
                if key == "event":
                    name = value
                elif key == "data":
                    yield name, json.loads(value)
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"the console fell silent: {error}") from error

    def break_off(self, job: str) -> None:
        """End a job, or forget it if it still waits, so that it does not go on another time."""
        for how in ("stop", "remove"):
            if self._ask("POST", f"/lab/queue/{job}/{how}").status == 303:
                break
        for _ in self.events(job):
            pass  # until it has ended

    def _change(self, path: str, **fields: str) -> str:
        answer = self._ask("POST", path, urlencode(fields))
        if answer.status != 303:
            raise Failed(f"the console refused POST {path} with {answer.status}; see {self.url}/lab")
        return answer.headers["Location"]

    def _ask(self, method: str, path: str, body: str = "", *, whole: bool = True) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._place, timeout=SILENCE_SECONDS)
        form = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        try:
            connection.request(method, path, body, self._headers | form)
            answer = connection.getresponse()
            if whole:
                answer.read()
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"the console at {self.url} does not answer: {error}") from error
        return answer


# The tour


def start(data: Path) -> tuple[str, Console]:
    """PostgreSQL, a broker and the console; the broker's address, and the console."""
    step(1, f"PostgreSQL, a broker and the web console start in {shown(data)} (some 10 s the first time)")
    with waiting() as line:
        line.now("stafette up")
        ports = ("--port", str(free(BROKER_PORT)), "--web-port", str(free(WEB_PORT)))
        done = run(STAFETTE, "up", "--data", data, *ports, "--json")
        found = json.loads(done.stdout)
        if found["web"] is None:
            raise Failed(f"the console did not start: {done.stderr.strip()}")
        first = re.search(
            r"^secret +(\S+)", done.stderr, re.MULTILINE
        )  # it can be shown once only; later we need a new one
        secret = first[1] if first else run(STAFETTE, "web", "secret", "--data", data).stdout.strip()
    say(f"broker    {found['broker']}")
    say(f"console   {found['web']}")
    say(f"secret    {secret}  (to log in to the console)")
    return found["broker"], Console(found["web"], secret)


def pass_messages(data: Path, broker: str) -> None:
    step(2, "Messages are passed on, first in Python, then in SQL (2 s)")
    database = run(STAFETTE, "db", "url", "--data", data).stdout.strip()
    for program, address in (("relay.py", broker), ("transactional_send.py", database)):
        for said in run(sys.executable, HERE / program, address).stdout.splitlines():
            say(said)


def experiment(console: Console, profile: str) -> str:
    """Run it and have it analysed; the name of its series."""
    step(3, "The console runs examples/demo.toml for 19 s and analyses it with Spark (a minute in all)")
    console.save("demo", (HERE / "demo.toml").read_text())
    job = console.queue("demo", profile)
    say(f"watch it  {console.url}/lab/queue/{job}", style="bold cyan")
    sys.stdout.flush()
    try:
        end = follow(console, job)
    except KeyboardInterrupt:
        say("breaking it off")
        console.break_off(job)
        raise
    if end["state"] != "done":
        raise Failed(f"the experiment {end['state']}: {end['sentence']}; see {console.url}/lab/queue/{job}")
    say(end["sentence"])
    return str(end["series"])


def follow(console: Console, job: str) -> dict[str, Any]:
    """Show how a job goes on; how it ended."""
    with waiting() as line:
        for name, event in console.events(job):
            if name == "end":
                return event
            line.now(event["phase"], figures(event["progress"]) if event["phase"] != "analysis" else "")
            for said in event["lines"]:
                line.now(f"{event['phase']}: {said}")
    raise Failed(f"the console said no more about job {job}; see {console.url}/lab/queue/{job}")


def figures(progress: dict[str, Any] | None) -> str:
    if progress is None or progress["throughput"] is None:
        return ""
    left = f"{progress['seconds_left']:.0f} s left, " if progress["phase"] != "check" else ""
    mean = "no answer" if progress["response_ms"] is None else f"{progress['response_ms']:.2f} ms a step"
    return f"{left}{progress['throughput']:,.0f} requests/s, {mean}, {progress['errors']:,} errors"


def results(data: Path, console: Console, series: str) -> None:
    """What was measured, from the analysis."""
    analysis = data / "runs" / series / "analysis"
    step(4, f"What the clients saw ({shown(analysis / 'summary.json')})")
    try:
        rows, facts = (json.loads((analysis / name).read_text()) for name in ("summary.json", "facts.json"))
    except OSError as error:
        raise Failed(f"there is no analysis: {error}") from error
    terminal.print(summary(rows))
    for made in facts["runs"]:
        say(f"verdict   {'valid' if made['valid'] else 'not to be trusted'}: {'; '.join(made['sentences'])}")
    say(f"report    {shown(analysis / 'report.html')}  (one file, for any browser)")
    say(f"          {console.url}/lab/series/{series}")


def summary(rows: list[dict[str, Any]]) -> Table:
    """Response times as the clients saw them, and how much of the mean the brokers explain."""
    brokers = {(row["operation"], row["outcome"]): row["mean_ms"] for row in rows if row["tier"] == "broker"}
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("     operation")
    for name in ("requests", "per s", "mean ms", "in broker", "p50", "p99", "max"):
        table.add_column(name, justify="right")
    for row in (row for row in rows if row["tier"] == "client"):
        kind = (row["operation"], row["outcome"])
        times = (row["mean_ms"], brokers.get(kind), row["p50_ms"], row["p99_ms"], row["max_ms"])
        table.add_row(
            f"     {' '.join(kind)}",
            f"{row['count']:,}",
            f"{row['throughput_per_s']:,.0f}",
            *("-" if value is None else f"{value:.2f}" for value in times),
            style="bold" if row["operation"] == "all" else "",
        )
    return table


def tour(data: Path, profile: str) -> None:
    began = time.monotonic()
    broker, console = start(data)
    pass_messages(data, broker)
    series = experiment(console, profile)
    results(data, console, series)
    say(f"all of it took {time.monotonic() - began:.0f} s")


def stop(data: Path) -> None:
    run(STAFETTE, "down", "--data", data)
    say(f"everything is stopped; the data stays in {shown(data)}")


def ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def interrupted(_number: int, _frame: FrameType | None) -> NoReturn:
    """The first Ctrl-C ends the tour; further ones would only disturb the tidying up, which takes some seconds."""
    ignore_signals()
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description="A tour of Stafette: starts it, passes messages, measures.")
    parser.add_argument("--data", type=Path, default=HERE.parent / ".demo", help="data folder (.demo in the checkout)")
    parser.add_argument("--stop", action="store_true", help="stop everything at the end")
    parser.add_argument("--profile", default="", help="a profile of examples/demo.toml: short measures for 2 s")
    chosen = parser.parse_args()
    data = chosen.data.resolve()
    for number in SIGNALS:
        signal.signal(number, interrupted)
    code, stays = 0, "It stays up."
    try:
        tour(data, chosen.profile)
    except KeyboardInterrupt:
        code = BROKEN_OFF
        say("broken off; everything is being stopped")
    except Failed as error:
        code, stays = 1, f"What was started stays up, its logs are in {shown(data)}."
        print(f"demo: {error}", file=sys.stderr)
    ignore_signals()
    if not chosen.stop and code != BROKEN_OFF:
        say(f"{stays} Stop it with `{typed(data, 'down')}`")
        return code
    try:
        stop(data)
    except Failed as error:
        print(f"demo: {error}", file=sys.stderr)
        code = code or 1
    return code


if __name__ == "__main__":
    sys.exit(main())
