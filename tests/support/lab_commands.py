"""`stafette lab` on small experiments."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.command_line import stafette

SWEEP = """
title = "How the size of a message matters"
[preload]
queues = 2
[run]
warm_up = 0.2
duration = {duration}
cool_down = 0.1
repetitions = {repetitions}
[clients.mix]
behaviour = "mix"
count = 2
think_time = 0.02
[system]
database = "{database}"
[design]
kind = "sweep"
order = "given"
[design.factors.size]
set = "clients.mix.size"
levels = [100, 2000]
[profiles.strict]
run.repetitions = 1
design.factors.size.levels = [100]
thresholds.throughput = ">= 1e9"
thresholds.errors = "== 0"
[profiles.large]
run.duration = 1.5
run.repetitions = 1
design.factors.size.levels = [2000]
"""


def written(folder: Path, name: str, **values: object) -> Path:
    file = folder / f"{name}.toml"
    file.write_text(SWEEP.format(**{"duration": 0.6, "repetitions": 1, "database": "reset"} | values))
    return file


def lab(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command that looks at runs in a folder or moves them."""
    return stafette("lab", *arguments, "--runs", str(folder / "runs"), cwd=folder)


def lab_json(folder: Path, *arguments: str) -> Any:
    done = lab(folder, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
