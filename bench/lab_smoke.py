"""`make lab-smoke`: runs one quick experiment of each kind with the command, and checks every count."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.machines import machines
from stafette.runs import layout

EXPERIMENTS = Path(__file__).parent.parent / "experiments" / "smoke"
KINDS = ("single", "sweep", "factorial", "ramp", "open", "hosts")
RUNS = {"single": 1, "sweep": 3, "factorial": 8, "ramp": 1, "open": 1, "hosts": 1}
ADDRESSES = [f"127.0.0.{number}" for number in range(11, 16)]


def run(file: Path, runs: Path) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "stafette",
        "lab",
        "run",
        str(file),
        "--profile",
        "quick",
        "--runs",
        str(runs),
        "--json",
    ]
    completed = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if not completed.stdout:
        sys.exit(f"{file.name}: `stafette lab run` ended with {completed.returncode} and printed nothing")
    outcome: dict[str, Any] = json.loads(completed.stdout)
    return outcome | {"exit_code": completed.returncode}


def check(kind: str, outcome: dict[str, Any]) -> list[str]:
    """The problems of a series."""
    problems = [f"exit code {outcome['exit_code']}"] if outcome["exit_code"] else []
    if len(outcome["runs"]) != RUNS[kind]:
        problems.append(f"{len(outcome['runs'])} runs instead of {RUNS[kind]}")
    for run_view in outcome["runs"]:
        record = json.loads((Path(outcome["folder"]) / layout.RUNS / run_view["folder"] / layout.RUN_FILE).read_text())
        if record["state"] != "done":
            problems.append(f"{run_view['folder']}: {record['why']}")
            continue
        passed = {check["name"] for check in record["checks"] if check["ok"]}
        if missing := {"complete", "answered", "seen", "messages"} - passed:
            problems.append(f"{run_view['folder']}: {', '.join(sorted(missing))} failed")
    return problems


def main() -> None:
    started = time.monotonic()
    failed = False
    with (
        tempfile.TemporaryDirectory(prefix="lab-smoke-") as folder,
        machines(Path(folder) / "machines", ADDRESSES) as options_by_address,
    ):
        details = "".join(
            f'[hosts.machines."{address}"]\n'
            + "".join(f"{key} = {json.dumps(value)}\n" for key, value in options.items())
            for address, options in options_by_address.items()
        )
        for kind in KINDS:
            file = Path(folder) / f"{kind}.toml"
            file.write_text((EXPERIMENTS / file.name).read_text() + (f"\n{details}" if kind == "hosts" else ""))
            kind_started = time.monotonic()
            outcome = run(file, Path(folder) / "runs")
            problems = check(kind, outcome)
            failed = failed or bool(problems)
            print(
                f"{kind:10} {time.monotonic() - kind_started:5.0f} s  {'; '.join(problems) or 'all counts are right'}",
                flush=True,
            )
    print(f"{time.monotonic() - started:.0f} s in all")
    sys.exit(failed)


if __name__ == "__main__":
    main()
