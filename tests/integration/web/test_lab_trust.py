"""What strangers, viewers and administrators cannot do through the laboratory's pages."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path

import httpx
import pytest

from stafette.cli.privileges import give_to_owner
from stafette.errors import InvalidRequest
from stafette.web.site import WebSettings, open_site
from tests.support import hostile_archives
from tests.support.brokers import StartBroker
from tests.support.command_line import stafette
from tests.support.hostile_archives import EVIL, EXPERIMENT, NAME, RUN, pack
from tests.support.web_process import Web, web_process

GROUP = '[clients.a]\nbehaviour = "mix"\ncount = 1\n'
HTML = {"Accept": "text/html"}


async def imported(api: httpx.AsyncClient, content: bytes) -> str:
    """The name under which a series was imported."""
    answer = await api.post("/lab/import", files={"file": ("series.zip", content)})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"].rpartition("/")[2]


def stored(site: Web, name: str, content: bytes = b"", **records: object) -> Path:
    """A series as it may lie in the folder of runs, whoever put it there."""
    folder = site.data / "runs" / name
    (folder / "runs/001-single-r1/logs").mkdir(parents=True)
    (folder / "experiment.toml").write_text(EXPERIMENT)
    (folder / "series.json").write_text(json.dumps(records.get("series", hostile_archives.series(name=name))))
    (folder / "runs/001-single-r1/run.json").write_text(json.dumps(records.get("run", hostile_archives.run())))
    (folder / "runs/001-single-r1/logs/large.log").write_bytes(content)
    give_to_owner(folder)
    return folder


# What came from elsewhere is data


async def test_an_imported_series_is_shown_as_such_and_runs_no_file_of_its_own(site: Web, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    text = EXPERIMENT.replace('"mix"', '"evil.py:Evil"', 1)
    evil = (f"{NAME}/evil.py", EVIL.format(mark=str(mark)).encode())
    async with site.api() as api:
        name = await imported(api, pack(evil, text=text))
        assert "imported" in (await api.get(f"/lab/series/{name}", headers=HTML)).text
        assert ">imported<" in (await api.get("/lab", headers=HTML)).text
        refused = await api.post("/lab/queue/series", data={"name": name, "what": "go on"})
        assert refused.status_code == 400
        assert "evil.py:Evil is a file that belongs to a series, and those are never run" in refused.json()["message"]
        copy = await api.get("/lab/experiments/new", params={"kind": "series", "name": name})
        assert "there is no behaviour file evil.py" in copy.text
        assert (await api.post("/lab/experiments", data={"text": text})).status_code == 400
        assert (await api.get("/lab")).status_code == 200
    assert not mark.exists()
    shown = stafette("lab", "show", name, "--runs", str(site.data / "runs"), "--json")
    assert json.loads(shown.stdout)["imported_at"]
    assert "none of its files is run" in stafette("lab", "show", name, "--runs", str(site.data / "runs")).stdout
    listed = json.loads(stafette("lab", "ls", "--runs", str(site.data / "runs"), "--json").stdout)
    assert [row["imported"] for row in listed if row["name"] == name] == [True]


@pytest.mark.parametrize("case", ["way out", "zeros", "odd started_at", "system folder", "settings that are none"])
async def test_an_archive_that_is_refused_is_refused_with_a_sentence(case: str, site: Web) -> None:
    before = sorted((site.data / "runs").iterdir())
    async with site.api() as api:
        content = hostile_archives.REFUSED[case].archive()
        answer = await api.post("/lab/import", files={"file": ("bad.zip", content)})
        assert answer.status_code == 400
        assert answer.json()["message"].startswith("bad.zip ")
        assert hostile_archives.REFUSED[case].says in answer.json()["message"]
    assert sorted((site.data / "runs").iterdir()) == before


async def test_the_folders_of_runs_and_experiments_are_not_in_one_another(tmp_path: Path) -> None:
    for runs, experiments in (("all/runs", "all"), ("all", "all/experiments"), ("all", "all")):
        settings = WebSettings("postgresql://nowhere", tmp_path, tmp_path / runs, tmp_path / experiments)
        with pytest.raises(InvalidRequest, match="lie in one another"):
            async with open_site(settings):
                pass


# What is stored may be odd, missing, or wanted by somebody slow


async def test_a_run_without_its_folder_is_shown_as_missing_and_nothing_else_suffers(site: Web) -> None:
    record = hostile_archives.series(name="gone-0001", state="done")
    record["runs"][0]["state"] = "done"
    folder = stored(site, "gone-0001", series=record)
    async with site.api() as api:
        assert (await api.get("/lab", headers=HTML)).status_code == 200
        (folder / "runs/001-single-r1").rename(folder / "moved")
        listed = await api.get("/lab", headers=HTML)
        assert listed.status_code == 200
        assert "gone-0001" in listed.text
        shown = await api.get("/lab/series/gone-0001", headers=HTML)
        assert shown.status_code == 200
        assert "the folder runs/001-single-r1 of this run is missing" in shown.text
        assert (await api.get("/lab/series/gone-0001/runs/1")).status_code == 404
    assert "is missing" in stafette("lab", "show", "gone-0001", "--runs", str(site.data / "runs")).stdout


@pytest.mark.parametrize("odd", ["yesterday", "2026-13-45", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:00"])
async def test_odd_times_in_stored_files_break_no_page(odd: str, site: Web) -> None:
    name = f"odd-{abs(hash(odd))}"
    stored(
        site,
        name,
        series=hostile_archives.series(name=name, started_at=odd, ended_at=odd),
        run=hostile_archives.run(started_at=odd),
    )
    async with site.api() as api:
        for path in ("/lab", f"/lab/series/{name}", f"/lab/series/{name}/runs/1"):
            assert (await api.get(path, headers=HTML)).status_code == 200, path
    for command in (["ls"], ["show", name], ["show", name, "--run", "1"]):
        assert stafette("lab", *command, "--runs", str(site.data / "runs")).returncode == 0


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "stays and reads no more"])
async def test_a_viewer_who_breaks_off_a_download_keeps_nobody_from_deleting(leaves: bool, site: Web) -> None:
    name = f"slow-{int(leaves)}"
    stored(site, name, os.urandom(64 * 2**20), series=hostile_archives.series(name=name))
    async with contextlib.AsyncExitStack() as stack:
        viewer = await stack.enter_async_context(site.api(site.viewer))
        stream = await stack.enter_async_context(viewer.stream("GET", f"/lab/series/{name}/zip"))
        assert stream.status_code == 200
        assert await anext(stream.aiter_raw())
        if leaves:
            await stack.aclose()
        async with site.api() as api:
            deleted = await api.post(f"/lab/series/{name}/delete")
            assert deleted.status_code == 303, deleted.text
    assert not (site.data / "runs" / name).exists()


# Texts


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a" + ".a" * 80_000 + " = 1", "nested more deeply than 16 levels"),
        ("".join(f'[clients.g{n}]\nbehaviour = "mix"\ncount = 1\n' for n in range(900)), "has 2,700 keys"),
        ("x = [" + "[" * 5000, "nested more deeply than 16 levels"),
    ],
    ids=["dots", "groups", "lists"],
)
async def test_a_text_that_is_too_large_is_a_problem_of_the_text(text: str, says: str, site: Web) -> None:
    async with site.api() as api:
        answer = await api.post("/lab/check", json={"text": text})
        assert answer.status_code == 200
        [problem] = answer.json()["problems"]
        assert says in problem["message"]
        assert answer.json()["form"] is None
        saved = await api.post("/lab/experiments", data={"text": text}, headers=HTML)
        assert saved.status_code == 400
        assert says in saved.text
        long = await api.post("/lab/check", json={"text": "#" * 390_000, "field": "seed", "value": "1"})
        assert long.status_code == 422
        long = await api.post("/lab/experiments", data={"text": "x" * 300_000})
        assert "the text is too long" in long.json()["message"]
        long = await api.post("/lab/experiments", data={"text": GROUP, "f:title": "x" * 300_000})
        assert "the text is too long" in long.json()["message"]


async def test_while_a_text_is_checked_others_are_served(site: Web) -> None:
    """The check never ends by itself: what answers meanwhile does not wait for it."""
    (site.data / "experiments").mkdir(exist_ok=True)
    (site.data / "experiments/slow.py").write_text("import signal\nwhile True: signal.pause()")
    async with site.api() as api, site.api(site.viewer) as viewer:
        text = GROUP.replace('"mix"', '"slow.py:Slow"')
        slow = asyncio.create_task(api.post("/lab/check", json={"text": text, "field": "seed", "value": "1"}))
        for path in ("/lab", "/", "/api/v1/queues", "/lab"):
            assert (await viewer.get(path)).status_code == 200
            assert not slow.done()
        assert "could not be checked within" in (await slow).json()["message"]
        assert (await api.post("/lab/check", json={"text": GROUP, "name": "x"})).json()["problems"] == []


# What experiments may reach


async def test_an_experiment_of_the_pages_reaches_only_what_the_operator_listed(site: Web) -> None:
    far = f'name = "far"\n[system]\ndatabase = "postgresql://who:hush@db.example/x"\n{GROUP}'
    elsewhere = f'name = "far"\n{GROUP}[hosts]\nclients = ["root@db.example"]\n'
    async with site.api() as api:
        for text in (far, elsewhere):
            saved = await api.post("/lab/experiments", data={"text": text}, headers=HTML)
            assert saved.status_code == 400
            assert "which experiments from the console may not use" in saved.text
        (site.data / "experiments").mkdir(exist_ok=True)
        (site.data / "experiments/far.toml").write_text(far)  # as if it had been saved by an earlier version
        job = await api.post("/lab/queue", data={"kind": "own", "name": "far"})
        url = job.headers["location"]
        async with api.stream("GET", f"{url}/events") as events:
            async for _ in events.aiter_lines():
                pass
        page = (await api.get(url, headers=HTML)).text
        assert "which experiments from the console may not use" in page
        assert "hush" not in page
        series = await imported(api, pack(text=far.replace('"far"', '"harmless"')))
        refused = await api.post("/lab/queue/series", data={"name": series, "what": "go on"})
        assert "which experiments from the console may not use" in refused.json()["message"]
    assert not list((site.data / "runs").glob("far-*"))


async def test_what_is_listed_may_be_saved(database: str, brokers: StartBroker, tmp_path: Path) -> None:
    _, broker = await brokers()
    options = (
        "--lab-databases",
        "postgresql://db.example/x postgresql://other.example",
        "--lab-hosts",
        "b1.lab c1.lab",
    )
    async with web_process(database, tmp_path, broker, *options) as url:
        secret = stafette("web", "secret", "--database", database).stdout.strip()
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as api:
            text = f'[system]\ndatabase = "postgresql://who@db.example/x"\n{GROUP}[hosts]\nclients = ["c1.lab"]\n'
            answer = await api.post("/lab/check", json={"text": text, "name": "x"})
            assert answer.json()["problems"] == []


# No laboratory


async def test_the_laboratory_can_be_switched_off(database: str, brokers: StartBroker, tmp_path: Path) -> None:
    _, broker = await brokers()
    async with web_process(database, tmp_path / "data", broker, "--no-lab") as url:
        secret = stafette("web", "secret", "--database", database).stdout.strip()
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as api:
            for method, path in (
                ("GET", "/lab"), ("GET", "/lab/series/x-0001/zip"), ("POST", "/lab/check"), ("POST", "/lab/import"),
                ("POST", "/lab/queue"), ("GET", "/lab/experiments/new"),
            ):  # fmt: skip
                answer = await api.request(method, path)
                assert answer.status_code == 404, path
                assert answer.json()["message"] == (
                    "the laboratory is switched off here; start the console without --no-lab"
                )
            page = await api.get("/", headers=HTML)
            assert page.status_code == 200
            assert 'href="/lab' not in page.text
        async with httpx.AsyncClient(base_url=url) as stranger:
            assert (await stranger.get("/lab")).status_code == 401
    assert [*tmp_path.glob("data/runs/*"), *tmp_path.glob("data/experiments/*")] == []


async def test_a_run_folder_that_a_zip_names_is_of_its_own_series(site: Web) -> None:
    """`stafette lab ls` and the pages list it beside the others, under a name of its own."""
    async with site.api() as api:
        first, second = await imported(api, pack()), await imported(api, pack((f"{RUN}/logs/a.log", b"a")))
        assert first != second
        assert (await api.get(f"/lab/series/{first}/runs/1/logs/a.log")).status_code == 404
        assert (await api.get(f"/lab/series/{second}/runs/1/logs/a.log")).text == "a"
