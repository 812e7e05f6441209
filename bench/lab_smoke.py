"""`make lab-smoke`: one quick experiment of each kind, run by the command as a user would, and every count checked."""

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
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if not done.stdout:
        sys.exit(f"{file.name}: `stafette lab run` ended with {done.returncode} and said nothing")
    found: dict[str, Any] = json.loads(done.stdout)
    return found | {"exit_code": done.returncode}


def check(kind: str, outcome: dict[str, Any]) -> list[str]:
    """What is wrong with it."""
    problems = [f"exit code {outcome['exit_code']}"] if outcome["exit_code"] else []
    if len(outcome["runs"]) != RUNS[kind]:
        problems.append(f"{len(outcome['runs'])} runs instead of {RUNS[kind]}")
    for one in outcome["runs"]:
        record = json.loads((Path(outcome["folder"]) / layout.RUNS / one["folder"] / layout.RUN_FILE).read_text())
        if record["state"] != "done":
            problems.append(f"{one['folder']}: {record['why']}")
            continue
        held = {check["name"] for check in record["checks"] if check["ok"]}
        if missing := {"complete", "answered", "seen", "messages"} - held:
            problems.append(f"{one['folder']}: {', '.join(sorted(missing))} do not hold")
    return problems


def main() -> None:
    began = time.monotonic()
    wrong = False
    with (
        tempfile.TemporaryDirectory(prefix="lab-smoke-") as folder,
        machines(Path(folder) / "machines", ADDRESSES) as reached,
    ):
        details = "".join(
            f'[hosts.machines."{address}"]\n'
            + "".join(f"{key} = {json.dumps(value)}\n" for key, value in machine.items())
            for address, machine in reached.items()
        )
        for kind in KINDS:
            file = Path(folder) / f"{kind}.toml"
            file.write_text((EXPERIMENTS / file.name).read_text() + (f"\n{details}" if kind == "hosts" else ""))
            started = time.monotonic()
            outcome = run(file, Path(folder) / "runs")
            problems = check(kind, outcome)
            wrong = wrong or bool(problems)
            print(
                f"{kind:10} {time.monotonic() - started:5.0f} s  {'; '.join(problems) or 'all counts hold'}",
                flush=True,
            )
    print(f"{time.monotonic() - began:.0f} s in all")
    sys.exit(wrong)


if __name__ == "__main__":
    main()
