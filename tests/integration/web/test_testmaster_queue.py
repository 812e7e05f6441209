"""The queue of runs: worked off one by one in child processes, stopped, and gone on with after the worst."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import signal
import sys
import zipfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import psutil
import pytest

from stafette.runs.records import SeriesRecord, read
from tests.support import hostile_archives
from tests.support.folder_processes import processes_of
from tests.support.web_process import Web

pytestmark = pytest.mark.slow


def experiment(name: str, database: str, *, duration: float = 1.0, repetitions: int = 1, **more: str) -> str:
    """A run of two clients."""
    group = '[clients.{0}]\nbehaviour = "{0}"\ncount = 1\nthink_time = 0.02\n'
    times = f"warm_up = 0.2\nduration = {duration}\ncool_down = 0.1\nrepetitions = {repetitions}"
    added = "\n".join(more.values())
    return (
        f'name = "{name}"\n[system]\ndatabase = "{database}"\n[preload]\nqueues = 2\n[run]\n{times}\n'
        f"{group.format('alice')}{group.format('bob')}{added}\n"
    )


async def saved(api: httpx.AsyncClient, text: str) -> None:
    answer = await api.post("/lab/experiments", data={"text": text})
    assert answer.status_code == 303, answer.text


async def queued(api: httpx.AsyncClient, name: str, **more: str) -> str:
    """The number of the job."""
    answer = await api.post("/lab/queue", data={"kind": "own", "name": name, **more})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].rpartition("/")[2]


async def events(api: httpx.AsyncClient, job: str) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
    """What the page of a job is told."""
    async with api.stream("GET", f"/lab/queue/{job}/events", timeout=180) as answer:
        if answer.status_code == 204:  # it is over
            return
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = ""
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


async def watch_until(api: httpx.AsyncClient, job: str, phase: str) -> dict[str, Any]:
    """Watch until a phase is reached, or the end."""
    async with contextlib.aclosing(events(api, job)) as told:
        async for name, event in told:
            if name == "end" or event["phase"] == phase:
                return {"event": name, **event}
    raise AssertionError("the stream ended without an end")


async def test_a_run_is_queued_watched_and_leaves_a_series(web: Web, new_database: str) -> None:
    async with web.api() as api:
        await saved(api, experiment("watched", new_database, duration=3.0))
        job = await queued(api, "watched")
        told = [event async for event in events(api, job)]
        assert told[0][0] == "state"
        assert told[-1] == ("end", {"state": "done", "sentence": "1 of 1 runs are done, 1 of them valid",
                                    "series": "watched-0001"})  # fmt: skip
        points = [point for _, event in told[:-1] for point in event["points"]]
        assert sum(point["throughput"] for point in points) > 0
        assert {event["phase"] for _, event in told[:-1]} >= {"prepare", "measure", "check"}
        assert (await api.get(f"/lab/queue/{job}/events")).status_code == 204

        for path in ("runs/2", "runs/1/logs/nothing.log", "report.html", "figures/summary/9"):
            missing = await api.get(f"/lab/series/watched-0001/{path}")
            assert missing.status_code == 404, path
        shown = await api.get("/lab/series/watched-0001", headers={"Accept": "text/html"})
        assert "the run is valid" in shown.text
        assert "has not been analysed" in shown.text
        logs = await api.get("/lab/series/watched-0001/runs/1/logs/broker-1.log")
        assert logs.headers["content-type"] == "text/plain; charset=utf-8"

        zipped = await api.get("/lab/series/watched-0001/zip")
        names = zipfile.ZipFile(io.BytesIO(zipped.content)).namelist()
        assert "watched-0001/series.json" in names
        taken = await api.post("/lab/import", files={"file": ("../w.zip", zipped.content)})
        assert taken.headers["location"] == "/lab/series/watched-0002"
        compared = await api.get("/lab/compare", params={"a": "watched-0001", "b": "watched-0002"})
        assert "× 1.000" in compared.text
        assert "All settings are the same" in compared.text

        gone = await api.post("/lab/series/watched-0002/delete")
        assert gone.status_code == 303
        assert not (web.data / "runs" / "watched-0002").exists()
        bad = await api.post("/lab/import", files={"file": ("bad.zip", b"PK no zip")})
        assert bad.status_code == 400
        assert "bad.zip is not a complete zip file" in bad.json()["message"]
    async with web.api(web.viewer) as api:
        assert (await api.get("/lab/series/watched-0001")).status_code == 200
        assert (await api.post("/lab/queue", data={"kind": "own", "name": "watched"})).status_code == 403
        assert (await api.post("/lab/series/watched-0001/delete")).status_code == 403
        assert (await api.post("/lab/queue/1/stop")).status_code == 403


async def test_jobs_wait_move_up_and_go_and_the_one_under_way_is_stopped(web: Web, new_database: str) -> None:
    async with web.api() as api:
        await saved(api, experiment("long", new_database, duration=600))
        first, second, third, fourth = [await queued(api, "long", new="true") for _ in range(4)]
        assert (await api.post(f"/lab/queue/{third}/up")).status_code == 303
        assert (await api.post(f"/lab/queue/{third}/up")).status_code == 400
        assert (await api.post(f"/lab/queue/{second}/remove")).status_code == 303
        assert (await api.post(f"/lab/queue/{fourth}/remove")).status_code == 303
        kept = json.loads((web.data / "runs" / "queue.json").read_text())
        assert [job["id"] for job in kept["waiting"]] == [first, third]

        await watch_until(api, first, "measure")
        refused = await api.post("/lab/series/long-0001/delete")
        assert refused.status_code == 400
        assert (await api.get("/lab/series/long-0001/zip")).status_code == 400
        assert (await api.post("/lab/experiments/long/delete")).status_code == 400
        assert (await api.post(f"/lab/queue/{third}/remove")).status_code == 303
        assert (await api.post(f"/lab/queue/{first}/stop")).status_code == 303
        told = [event async for event in events(api, first)]  # to the end of the job, if that is not over
        assert not told or told[-1][1]["state"] == "stopped"
        page = await api.get(f"/lab/queue/{first}")
        assert "the job was stopped; its series can be continued" in page.text
        assert processes_of(web.data / "runs") == []
        assert read(web.data / "runs" / "long-0001" / "series.json", SeriesRecord).runs[0].state == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
async def test_the_queue_goes_on_after_the_web_process_was(
    web: Web, new_database: str, database: str, number: int, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = web.data / "runs"
    async with web.api() as api:
        await saved(api, experiment("resumed", new_database, duration=1.5, repetitions=2))
        job = await queued(api, "resumed")
        async with contextlib.aclosing(events(api, job)) as told:
            async for _, event in told:
                if event["progress"] and event["progress"]["place"] == 2 and event["phase"] == "measure":
                    break
    [server] = [process for process in psutil.process_iter() if _is_web(process, web.data)]
    children = server.children(recursive=True)
    server.send_signal(number)
    gone, alive = await asyncio.to_thread(psutil.wait_procs, children, 60)
    assert alive == []
    assert gone
    assert "Traceback" not in capfd.readouterr().err

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "stafette", "web", "--database", database, "--data", str(web.data), "--port", "0",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        async with httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {web.admin}"}, timeout=60) as api:
            end = await watch_until(api, job, "-")
        assert (end["event"], end["state"], end["series"]) == ("end", "done", "resumed-0001"), end["sentence"]
    finally:
        process.terminate()
        await process.wait()
    assert [path.name for path in runs.glob("resumed-*")] == ["resumed-0001"]
    record = read(runs / "resumed-0001" / "series.json", SeriesRecord)
    assert [run.state for run in record.runs] == ["done", "done"]
    assert [str(run.folder).endswith("-again2") for run in record.runs] == [False, True]


def _is_web(process: psutil.Process, data: Path) -> bool:
    with contextlib.suppress(psutil.Error):
        command: list[str] = process.cmdline()
        return "web" in command and str(data) in command
    return False


async def test_no_run_touches_the_consoles_own_database(web: Web, database: str) -> None:
    levels = f'set = "system.database"\nlevels = ["reset", "{database}"]'
    factor = f'[design]\nkind = "sweep"\n[design.factors.where]\n{levels}'
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("DELETE FROM stafette.clients")  # so that nothing else stands in the way
        async with web.api() as api:
            await saved(api, experiment("grab", database))
            await saved(api, experiment("sly", "reset", more=factor))
            for name in ("grab", "sly"):
                job = await queued(api, name)
                end = await watch_until(api, job, "-")
                assert end["state"] == "failed"
                assert "is the database of this console" in end["sentence"]
        assert await connection.fetchval("SELECT count(*) FROM stafette.operators") == 2
    finally:
        await connection.close()


async def test_an_imported_series_with_built_in_behaviours_goes_on(web: Web, new_database: str) -> None:
    text = experiment("harmless", new_database)
    async with web.api() as api:
        taken = await api.post("/lab/import", files={"file": ("x.zip", hostile_archives.pack(text=text))})
        name = taken.headers["location"].rpartition("/")[2]
        answer = await api.post("/lab/queue/series", data={"name": name, "what": "go on"})
        assert answer.status_code == 303, answer.text
        end = await watch_until(api, answer.headers["location"].rpartition("/")[2], "-")
        assert (end["state"], end["series"]) == ("done", name), end["sentence"]
    record = read(web.data / "runs" / name / "series.json", SeriesRecord)
    assert record.imported_at
    assert [run.folder for run in record.runs] == ["001-single-r1-again2"]


async def test_what_cannot_be_run_fails_with_a_sentence(web: Web, new_database: str) -> None:
    async with web.api() as api:
        await saved(api, experiment("spoiled", new_database))
        (web.data / "experiments" / "spoiled.toml").write_text("name = 3")
        end = await watch_until(api, await queued(api, "spoiled"), "-")
        assert end["state"] == "failed"
        assert "name is 3" in end["sentence"]
        wrong = await api.post("/lab/queue", data={"kind": "own", "name": "spoiled", "profile": "none"})
        assert wrong.status_code == 400
        assert (await api.post("/lab/queue", data={"kind": "own", "name": "../x"})).status_code == 404
