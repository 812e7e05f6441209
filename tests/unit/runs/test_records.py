"""Records of runs as files: whole, as an outline, lean, and older ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stafette.errors import InvalidRequest
from stafette.pipeline.sources.record import run_of
from stafette.runs import records
from stafette.runs.closed_loop import ClosedLoop
from stafette.runs.records import RunRecord, Verdict, outline
from stafette.runs.window import Window

LEAN: dict[str, Any] = {
    "format": 1, "id": "s-0001/001-single-r1", "experiment": "s", "label": "single", "levels": {}, "repetition": 1,
    "state": "done", "settings": {"clients": {"alice": {"count": 4, "think_time": 0.01}}},
}  # fmt: skip


def whole() -> RunRecord:
    return RunRecord(
        **{key: value for key, value in LEAN.items() if key != "format"},
        seed=7,
        load=Window(0, 10),
        window=Window(2, 8),
        closed_loop=ClosedLoop(4, 0.01, 12.5),
        verdict=Verdict(True, ["all checks hold"]),
    )


def test_a_record_survives_as_a_file(tmp_path: Path) -> None:
    records.write(tmp_path / "run.json", whole())
    assert records.read(tmp_path / "run.json", RunRecord) == whole()
    seen = outline((tmp_path / "run.json").read_text())
    assert (seen.id, seen.window, seen.closed_loop) == (LEAN["id"], Window(2, 8), ClosedLoop(4, 0.01, 12.5))


def test_the_pipeline_takes_the_loop_that_the_record_tells() -> None:
    told = {**LEAN, "closed_loop": {"clients": 4, "think_time_s": 0.01, "steps_per_s": 12.5}}
    assert run_of(json.dumps(told), "f").closed_loop == ClosedLoop(4, 0.01, 12.5)


def test_a_record_of_before_there_were_closed_loops_in_it_takes_steps_for_requests() -> None:
    run = run_of(json.dumps(LEAN), "f")
    assert run.closed_loop == ClosedLoop(4, 0.01, None)
    assert (run.clients, run.think_time_s, run.load, run.valid, run.sentences) == ({"alice": 4}, 0.01, None, None, ())


def test_keys_that_nobody_needs_may_be_anything() -> None:
    assert run_of(json.dumps({**LEAN, "machines": "none", "seed": None, "later": [1]}), "f").run == LEAN["id"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"format": 2}, "is of format 2, this Stafette reads format 1"),
        ({"format": None}, r"is not a record of a run: .*format"),
        ({"state": "odd"}, r"is not a record of a run: .*state"),
        ({"levels": 3}, r"is not a record of a run: .*levels"),
        ({"settings": {"clients": {"alice": {}}}}, "is not a record of a run: it has no count"),
        ({"settings": {"clients": {"a": {"count": 1, "think_time": {"odd": 1}}}}}, "there is no distribution odd"),
        ({"window": {"start_ns": 5, "end_ns": 5}}, "must end after it starts"),
    ],
)
def test_what_is_no_record_is_refused_in_a_sentence(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        run_of(json.dumps(LEAN | changes), "f")


@pytest.mark.parametrize("key", LEAN)
def test_every_key_of_a_lean_record_is_needed(key: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"is not a record of a run: .*`{key}`"):
        run_of(json.dumps({name: value for name, value in LEAN.items() if name != key}), "f")


def test_a_window_of_no_length() -> None:
    with pytest.raises(InvalidRequest, match="must end after it starts"):
        Window(5, 5)
