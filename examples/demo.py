"""A tour of Stafette: starts it, passes messages, runs an experiment in the web console, shows what was measured.

    make demo                           leaves everything running, in .demo/
    make demo STOP=--stop               stops it at the end
    .venv/bin/python examples/demo.py --help

The web console runs the experiment, so its page shows the progress live, and then the report.
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
TIMEOUT_SECONDS = 60.0  # the console sends an event at least every ten
INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)

terminal = Terminal(highlight=False, soft_wrap=True)


class Failed(Exception):
    """The demo cannot continue; its text is the reason."""


# Output


def step(number: int, title: str) -> None:
    terminal.print(Text(f"\n{number}/{STEPS}  {title}", style="bold"))


def say(line: str, style: str = "") -> None:
    terminal.print(Text(f"     {line}", style=style))


class ProgressLine:
    """A line with a spinner on a terminal; elsewhere a line for each new phase."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("")
        self._phase = ""

    def update(self, phase: str, detail: str = "") -> None:
        self._progress.update(self._task, description=f"{phase}  {detail}")
        if phase != self._phase and not terminal.is_terminal:
            say(phase)
            sys.stdout.flush()
        self._phase = phase


@contextmanager
def progress_line() -> Iterator[ProgressLine]:
    columns = (TextColumn("    "), SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        yield ProgressLine(progress)


# Commands


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, even on Ctrl-C: a half started system could not be stopped."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Settings of another system must not lead the demo to it.
        env={name: value for name, value in os.environ.items() if not name.startswith("STAFETTE_")},
    )
    try:
        out, errors = process.communicate()
    except KeyboardInterrupt:
        process.communicate()
        raise
    if process.returncode != 0:
        reason = errors.strip().rpartition("\n")[2].removeprefix("stafette: ") or f"exit code {process.returncode}"
        raise Failed(f"`{shlex.join(str(part) for part in command)}` failed: {reason}")
    return subprocess.CompletedProcess(command, 0, out, errors)


def free_port(port: int) -> int:
    """The port if it is free, else 0, which takes any."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return 0
    return port


def format_path(path: Path) -> str:
    """A path as one types it in the working folder."""
    folder = Path.cwd()
    return str(path.relative_to(folder) if path.is_relative_to(folder) else path)


def format_command(data: Path, *command: str) -> str:
    """A command as one types it in the working folder."""
    return shlex.join([format_path(STAFETTE), *command, "--data", format_path(data)])


# The console


class Console:
    """A client of the web console: sends the requests of its pages, with the administrator's secret."""

    def __init__(self, url: str, secret: str) -> None:
        self.url = url
        self._host = urlsplit(url).netloc
        self._headers = {"Authorization": f"Bearer {secret}"}

    def save(self, name: str, text: str) -> None:
        """Store an experiment in the console, in place of one with the same name."""
        exists = self._request("GET", f"/lab/experiments/{name}").status == 200
        self._post("/lab/experiments", text=text, before=name if exists else "")

    def queue(self, name: str, profile: str) -> str:
        """Queue an experiment to be run and analysed; returns the number of the job."""
        location = self._post("/lab/queue", kind="own", name=name, profile=profile, new="true", analyse="true")
        return location.rpartition("/")[2]

    def events(self, job: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The events of a job's live page, to its end."""
        answer, name = self._request("GET", f"/lab/queue/{job}/events", read_all=False), ""
        try:
            while line := answer.readline().decode():
                key, _, value = line.rstrip("\n").partition(": ")
                if key == "event":
                    name = value
                elif key == "data":
                    yield name, json.loads(value)
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"the console stopped sending events: {error}") from error

    def cancel(self, job: str) -> None:
        """Stop a job, or remove it if it still waits, so that it does not continue later."""
        for action in ("stop", "remove"):
            if self._request("POST", f"/lab/queue/{job}/{action}").status == 303:
                break
        for _ in self.events(job):
            pass  # wait for its end

    def _post(self, path: str, **fields: str) -> str:
        answer = self._request("POST", path, urlencode(fields))
        if answer.status != 303:
            raise Failed(f"the console refused POST {path} with {answer.status}; see {self.url}/lab")
        return answer.headers["Location"]

    def _request(self, method: str, path: str, body: str = "", *, read_all: bool = True) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self._host, timeout=TIMEOUT_SECONDS)
        form = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
        try:
            connection.request(method, path, body, self._headers | form)
            answer = connection.getresponse()
            if read_all:
                answer.read()
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"the console at {self.url} does not answer: {error}") from error
        return answer


# The tour


def start(data: Path) -> tuple[str, Console]:
    """Start PostgreSQL, a broker and the console; returns the broker's URL, and a client of the console."""
    step(1, f"Start PostgreSQL, a broker and the web console in {format_path(data)} (some 10 s the first time)")
    with progress_line() as line:
        line.update("stafette up")
        ports = ("--port", str(free_port(BROKER_PORT)), "--web-port", str(free_port(WEB_PORT)))
        completed = run(STAFETTE, "up", "--data", data, *ports, "--json")
        urls = json.loads(completed.stdout)
        if urls["web"] is None:
            raise Failed(f"the console did not start: {completed.stderr.strip()}")
        # `up` shows the secret only the first time; later the demo makes a new one.
        first = re.search(r"^secret +(\S+)", completed.stderr, re.MULTILINE)
        secret = first[1] if first else run(STAFETTE, "web", "secret", "--data", data).stdout.strip()
    say(f"broker    {urls['broker']}")
    say(f"console   {urls['web']}")
    say(f"secret    {secret}  (to log in to the console)")
    return urls["broker"], Console(urls["web"], secret)


def pass_messages(data: Path, broker: str) -> None:
    step(2, "Pass messages, first in Python, then in SQL (2 s)")
    database = run(STAFETTE, "db", "url", "--data", data).stdout.strip()
    for program, url in (("relay.py", broker), ("transactional_send.py", database)):
        for line in run(sys.executable, HERE / program, url).stdout.splitlines():
            say(line)


def experiment(console: Console, profile: str) -> str:
    """Run the experiment and analyse it; returns the name of its series."""
    step(3, "Run examples/demo.toml in the console for 19 s, and analyse it with Spark (a minute in all)")
    console.save("demo", (HERE / "demo.toml").read_text())
    job = console.queue("demo", profile)
    say(f"watch it  {console.url}/lab/queue/{job}", style="bold cyan")
    sys.stdout.flush()
    try:
        end = follow(console, job)
    except KeyboardInterrupt:
        say("stopping the experiment")
        console.cancel(job)
        raise
    if end["state"] != "done":
        raise Failed(f"the experiment {end['state']}: {end['sentence']}; see {console.url}/lab/queue/{job}")
    say(end["sentence"])
    return str(end["series"])


def follow(console: Console, job: str) -> dict[str, Any]:
    """Show the progress of a job; returns its last event."""
    with progress_line() as line:
        for name, event in console.events(job):
            if name == "end":
                return event
            line.update(event["phase"], format_progress(event["progress"]) if event["phase"] != "analysis" else "")
            for text in event["lines"]:
                line.update(f"{event['phase']}: {text}")
    raise Failed(f"the console's events stopped before job {job} ended; see {console.url}/lab/queue/{job}")


def format_progress(progress: dict[str, Any] | None) -> str:
    if progress is None or progress["throughput"] is None:
        return ""
    left = f"{progress['seconds_left']:.0f} s left, " if progress["phase"] != "check" else ""
    mean = "no answer" if progress["response_ms"] is None else f"{progress['response_ms']:.2f} ms a step"
    return f"{left}{progress['throughput']:,.0f} requests/s, {mean}, {progress['errors']:,} errors"


def results(data: Path, console: Console, series: str) -> None:
    """Show the results of the analysis."""
    analysis = data / "runs" / series / "analysis"
    step(4, f"Response times that the clients measured ({format_path(analysis / 'summary.json')})")
    try:
        rows, metadata = (json.loads((analysis / name).read_text()) for name in ("summary.json", "facts.json"))
    except OSError as error:
        raise Failed(f"there is no analysis: {error}") from error
    terminal.print(summary(rows))
    for run_record in metadata["runs"]:
        say(f"verdict   {'valid' if run_record['valid'] else 'not valid'}: {'; '.join(run_record['sentences'])}")
    say(f"report    {format_path(analysis / 'report.html')}  (one file, for any browser)")
    say(f"          {console.url}/lab/series/{series}")


def summary(rows: list[dict[str, Any]]) -> Table:
    """A table of response times at the clients, with the mean time in the broker."""
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
    started = time.monotonic()
    broker, console = start(data)
    pass_messages(data, broker)
    series = experiment(console, profile)
    results(data, console, series)
    say(f"the tour took {time.monotonic() - started:.0f} s")


def stop(data: Path) -> None:
    run(STAFETTE, "down", "--data", data)
    say(f"everything is stopped; the data stays in {format_path(data)}")


def ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def on_signal(_number: int, _frame: FrameType | None) -> NoReturn:
    """End the tour at the first Ctrl-C, and ignore further ones: the cleanup takes some seconds."""
    ignore_signals()
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(description="A tour of Stafette: starts it, passes messages, measures.")
    parser.add_argument("--data", type=Path, default=HERE.parent / ".demo", help="data folder (.demo in the checkout)")
    parser.add_argument("--stop", action="store_true", help="stop everything at the end")
    parser.add_argument("--profile", default="", help="a profile of examples/demo.toml; `short` measures for 2 s")
    arguments = parser.parse_args()
    data = arguments.data.resolve()
    for number in SIGNALS:
        signal.signal(number, on_signal)
    code, state = 0, "It stays up."
    try:
        tour(data, arguments.profile)
    except KeyboardInterrupt:
        code = INTERRUPTED
        say("interrupted; stopping everything")
    except Failed as error:
        code, state = 1, f"Started processes stay up; their logs are in {format_path(data)}."
        print(f"demo: {error}", file=sys.stderr)
    ignore_signals()
    if not arguments.stop and code != INTERRUPTED:
        say(f"{state} Stop it with `{format_command(data, 'down')}`")
        return code
    try:
        stop(data)
    except Failed as error:
        print(f"demo: {error}", file=sys.stderr)
        code = code or 1
    return code


if __name__ == "__main__":
    sys.exit(main())
