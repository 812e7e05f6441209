"""Archives of series as somebody with bad intentions would pack them: a corpus, and what is answered to each."""

from __future__ import annotations

import io
import json
import stat
import warnings
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

EXPERIMENT = """\
name = "harmless"
[run]
repetitions = 1
[clients.mix]
behaviour = "mix"
count = 1
"""
EVIL = """\
from pathlib import Path
from stafette.lab.behaviours import Behaviour

Path({mark!r}).touch()

class Evil(Behaviour):
    async def step(self):
        Path({mark!r}).touch()
"""
SETTINGS: dict[str, Any] = {
    "name": "harmless",
    "title": "",
    "question": "",
    "source": "",
    "original": "",
    "seed": 1,
    "system": {
        "brokers": 1, "workers": 1, "connections": 4, "batch": 512, "max_clients": 10000, "max_in_flight": 20000,
        "load_processes": 1, "database": "reset",
    },
    "preload": {"queues": 20, "messages": 0, "size": {"fixed": 200.0}},
    "run": {"warm_up": 5.0, "duration": 30.0, "cool_down": 2.0, "repetitions": 1},
    "clients": {
        "mix": {
            "behaviour": "mix", "count": 1, "think_time": {"fixed": 0.0}, "rate": None, "arrivals": "poisson",
            "ramp": None, "parameters": {},
        }
    },
    "faults": [],
    "thresholds": {},
    "design": {"kind": "single", "order": "random", "factors": {}},
    "hosts": None,
}  # fmt: skip
NAME = "harmless-0001"
RUN = f"{NAME}/runs/001-single-r1"

Entry = tuple[zipfile.ZipInfo | str, bytes]


def series(**changes: Any) -> dict[str, Any]:
    """`series.json` of one run that failed."""
    return {
        "name": NAME, "experiment": "harmless", "profile": None, "fingerprint": "0123456789ab", "settings": SETTINGS,
        "seed": 1, "state": "failed", "started_at": "2026-01-01T00:00:00+00:00", "ended_at": "", "format": 1,
        "file": "harmless.toml",
        "runs": [{"label": "single", "levels": {}, "repetition": 1, "state": "failed", "folder": "001-single-r1"}],
        **changes,
    }  # fmt: skip


def run(**changes: Any) -> dict[str, Any]:
    """Its `run.json`."""
    return {
        "id": f"{NAME}/001-single-r1", "experiment": "harmless", "label": "single", "levels": {}, "repetition": 1,
        "settings": SETTINGS, "state": "failed", "why": "it failed", "seed": 1,
        "started_at": "2026-01-01T00:00:00+00:00", **changes,
    }  # fmt: skip


def summary(**figures: object) -> dict[str, Any]:
    """The summary of a run, with figures that it may not have had."""
    names = ("throughput_per_s", "mean_ms", "stddev_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms", "max_ms")
    overall = dict.fromkeys(names, 1.0) | {"count": 1}
    return {
        "window": {"start_ns": 1, "end_ns": 2}, "overall": overall | figures, "parts": [], "requests": 1, "errors": 0,
        "error_share": 0.0, "messages_sent_per_s": 1.0, "messages_received_per_s": 1.0, "mean_in_flight": 1.0,
    }  # fmt: skip


def pack(
    *more: Entry,
    record: object = None,
    run_record: object = None,
    text: str | bytes = EXPERIMENT,
    name: str = NAME,
    method: int = zipfile.ZIP_DEFLATED,
) -> bytes:
    """A zip file of such a series, with more entries or other records."""

    def encoded(value: object) -> bytes:
        return value if isinstance(value, bytes) else json.dumps(value).encode()

    entries: list[Entry] = [
        (f"{NAME}/experiment.toml", text if isinstance(text, bytes) else text.encode()),
        (f"{NAME}/series.json", encoded(series() if record is None else record)),
        (f"{RUN}/run.json", encoded(run() if run_record is None else run_record)),
        *more,
    ]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive, warnings.catch_warnings(action="ignore"):
        for entry, content in entries:
            entry_name = entry if isinstance(entry, str) else entry.filename
            if isinstance(entry, str):
                archive.writestr(entry_name.replace(NAME, name), content)
            else:
                archive.writestr(entry, content)
    return file.getvalue()


def special(name: str, mode: int, content: bytes = b"/etc/passwd") -> Entry:
    """An entry that is not a plain file."""
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    return entry, content


def understated(content: bytes) -> bytes:
    """An archive whose directory and headers claim that its largest file has a hundred bytes."""
    size = len(content).to_bytes(4, "little")
    packed = pack((f"{RUN}/logs/large.log", content))
    assert packed.count(size) >= 2
    return packed.replace(size, (100).to_bytes(4, "little"))


def nested(depth: int) -> bytes:
    """`series.json` with lists in one another."""
    whole = json.dumps(series(settings={"deep": "HERE"}))
    return whole.replace('"HERE"', "[" * depth + "]" * depth).encode()


@dataclass(frozen=True)
class Case:
    """An archive, and a part of the sentence that refuses it."""

    archive: Callable[[], bytes]
    says: str
    environment: Mapping[str, str] = field(default_factory=dict)


def _settings(**changes: Any) -> dict[str, Any]:
    return series(settings={**SETTINGS, **changes})


REFUSED: dict[str, Case] = {
    "way out": Case(lambda: pack(("../escaped", b"")), "outside the folder"),
    "way out inside": Case(lambda: pack((f"{NAME}/a/../../escaped.py", b"")), "outside the folder"),
    "absolute": Case(lambda: pack(("/tmp/escaped", b"")), "outside the folder"),
    "backslash": Case(lambda: pack((f"{NAME}\\..\\escaped", b"")), "outside the folder"),
    "link": Case(lambda: pack(special(f"{NAME}/link.py", stat.S_IFLNK | 0o777)), "is a link or device"),
    "device": Case(lambda: pack(special(f"{NAME}/disk.py", stat.S_IFBLK | 0o666)), "is a link or device"),
    "twice": Case(lambda: pack((f"{NAME}/series.json", b"{}")), "contains a file twice"),
    "twice by case": Case(lambda: pack((f"{NAME}/Series.JSON", b"{}")), "contains a file twice"),
    "twice by form": Case(lambda: pack((f"{NAME}/é.py", b""), (f"{NAME}/e\u0301.py", b"")), "contains a file twice"),
    "control characters": Case(lambda: pack((f"{NAME}/a\x1b[2J.py", b"")), "is no name of a file"),
    "long name": Case(lambda: pack((f"{NAME}/{'a' * 300}.py", b"")), "is no name of a file"),
    "deep folders": Case(lambda: pack((f"{NAME}/{'a/' * 50}x.py", b"")), "is no name of a file"),
    "lock": Case(lambda: pack((f"{NAME}/series.lock/x", b"")), "which no series has"),
    "system folder": Case(lambda: pack((f"{NAME}/system/json/__init__.py", b"")), "which no series has"),
    "settings file": Case(lambda: pack((f"{NAME}/stafette.toml", b"")), "which no series has"),
    "many files": Case(lambda: pack(*((f"{NAME}/runs/{n}", b"") for n in range(100_000))), "holds 100,003 files"),
    "zeros": Case(lambda: pack((f"{RUN}/logs/zeros.log", bytes(64 * 2**20))), "more than 200 times its size"),
    "large record": Case(
        lambda: pack(record=b" " * 17 * 2**20, method=zipfile.ZIP_STORED), "'harmless-0001/series.json' of 17,825,792"
    ),
    "large text": Case(lambda: pack(text="#" * 300_000, method=zipfile.ZIP_STORED), "experiment.toml' of 300,000"),
    "deep text": Case(lambda: pack(text="a" + ".a" * 1000 + " = 1"), "nested more deeply than 16"),
    "text that is none": Case(lambda: pack(text=b"\xff\xfe"), "no experiment.toml that can be read"),
    "understated size": Case(lambda: understated(b"x" * 7_654_321), "is not a complete zip file"),
    "two series": Case(lambda: pack(("another-0001/series.json", b"{}")), "holds no series"),
    "hidden name": Case(lambda: pack(name=".hidden"), "holds no series"),
    "no object": Case(lambda: pack(record=b"[]"), "holds no series of this Stafette"),
    "deep JSON": Case(lambda: pack(record=nested(100_000)), "holds no series of this Stafette"),
    "deep settings": Case(lambda: pack(record=nested(100)), "nested deeply"),
    "settings that are none": Case(lambda: pack(record=series(settings={})), "has settings that this Stafette"),
    "groups that are a list": Case(lambda: pack(record=_settings(clients=[])), "has settings that this Stafette"),
    "foreign settings": Case(lambda: pack(record=_settings(shell="/bin/sh")), "has settings that this Stafette"),
    "odd started_at": Case(lambda: pack(record=series(started_at="yesterday")), "its started_at is 'yesterday'"),
    "far started_at": Case(
        lambda: pack(record=series(started_at="0001-01-01T00:00:00+23:59")), "its started_at is '0001"
    ),
    "odd ended_at": Case(lambda: pack(record=series(ended_at="<b>")), "its ended_at is '<b>'"),
    "odd started_at of a run": Case(lambda: pack(run_record=run(started_at="soon")), "its started_at is 'soon'"),
    "number as a time": Case(lambda: pack(record=series(started_at=5)), "holds no series of this Stafette"),
    "window out of time": Case(
        lambda: pack(run_record=run(load={"start_ns": 1, "end_ns": 10**30})), "its window is"
    ),
    "negative figure": Case(lambda: pack(run_record=run(summary=summary(mean_ms=-1.0))), "its mean_ms is '-1.0'"),
    "endless figure": Case(
        lambda: pack(run_record=run(summary={**summary(), "errors": 10**400})), "its errors is '1000"
    ),
    "run that is a list": Case(lambda: pack(run_record=[]), "run.json that is not a record"),
    "odd name": Case(lambda: pack(record=series(experiment="../../evil")), "its experiment is '../../evil'"),
    "odd fingerprint": Case(lambda: pack(record=series(fingerprint="<script>")), "its fingerprint is '<script>'"),
    "label with a way out": Case(
        lambda: pack(record=series(runs=[{"label": "../../x", "levels": {}, "repetition": 1}])), "its label is"
    ),
    "level that is a table": Case(
        lambda: pack(record=series(runs=[{"label": "x", "levels": {"a": {}}, "repetition": 1}])), "its level is"
    ),
    "folder elsewhere": Case(
        lambda: pack(record=series(runs=[{"label": "single", "levels": {}, "repetition": 1, "folder": "../x"}])),
        "outside the folder",
    ),
    "newer format": Case(lambda: pack(record=series(format=2)), "has format 2"),
    "no zip": Case(lambda: b"PK no zip", "is not a complete zip file"),
}  # fmt: skip
"""Each is refused with one sentence, and leaves nothing behind."""
