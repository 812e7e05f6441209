"""`stafette bench` and `stafette db bench`: the keys people build on, and figures that agree with each other."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.command_line import assert_one_sentence, stafette, stafette_process

KEYS = {
    "requests_per_second", "sends_per_second", "receives_per_second", "empty_per_second", "errors", "mean_ms", "p50_ms",
    "p99_ms", "max_ms", "clients", "seconds",
}  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        ("--clients", "8"),
        ("--clients", "8", "--processes", "2", "--mix", "send:2,broadcast:1,receive:3,lease:1,peek:1"),
        ("--clients", "4", "--mix", "request:1"),
        ("--clients", "8", "--rate", "200"),
        ("--clients", "8", "--echo"),
    ],
    ids=["closed", "mix", "request", "open", "echo"],
)
async def test_a_load_through_the_broker(broker: str, options: tuple[str, ...]) -> None:
    done = await asyncio.to_thread(stafette_process, "bench", "--url", broker, "--seconds", "0.5", "--json", *options)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result) >= KEYS
    assert result["errors"] == 0
    assert result["requests_per_second"] > 0
    assert result["p50_ms"] <= result["p99_ms"] <= result["max_ms"]
    if "--mix" not in options and "--echo" not in options:
        parts = ("sends_per_second", "receives_per_second", "empty_per_second")
        assert sum(result[part] for part in parts) == pytest.approx(result["requests_per_second"], rel=0.01)


async def test_a_load_on_the_database_alone(database: str) -> None:
    arguments = ("db", "bench", "--database", database, "--seconds", "0.5", "--batch", "8", "--json")
    done = await asyncio.to_thread(stafette_process, *arguments)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert set(result) >= KEYS
    assert result["errors"] == 0
    assert result["sends_per_second"] > 0
    assert result["receives_per_second"] > 0


def test_a_wrong_mix_and_a_missing_broker_are_said_in_a_sentence() -> None:
    assert_one_sentence(stafette("bench", "--mix", "fly:1"), 1, "is not a positive share of send")
    assert_one_sentence(stafette("bench", "--mix", "send:x"), 1, "is not a number")
    nowhere = stafette("bench", "--url", "stafette://127.0.0.1:1", "--seconds", "0.5")
    assert_one_sentence(nowhere, 3, "check that it runs")
    nobody = stafette("bench", "--data", "/nonexistent", "--seconds", "0.5")
    assert_one_sentence(nobody, 3, "no broker runs with the data folder /nonexistent")
