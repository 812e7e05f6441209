"""The laboratory in the browser: an experiment is made, run, watched, looked at, compared, taken along and deleted."""

from __future__ import annotations

import re
import tomllib
import zipfile
from pathlib import Path

from playwright.async_api import Page, expect

from tests.support.browser_pages import Entrance, assert_accessible, follow, forced, looks_well, token_of
from tests.support.stafette_up import System

RUN_SECONDS = 180
"""A run starts a PostgreSQL of its own, and machines that test are often busy."""

TINY = """\
# As small as can be.
name = "{name}"

[preload]
queues = 2

[run]
warm_up = 0.2
duration = {duration}
cool_down = 0.1
repetitions = 1

[clients.alice]
behaviour = "alice"
count = 1
think_time = 0.02

[clients.bob]
behaviour = "bob"
count = 1
think_time = 0.02
"""


def put(system: System, name: str, duration: float = 2.0) -> None:
    """An experiment that is there already."""
    folder = system.data / "experiments"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.toml").write_text(TINY.format(name=name, duration=duration))


async def checked(page: Page) -> None:
    """Wait until the server has looked at what was typed."""
    await expect(page.locator("#editor[data-checked=yes]")).to_be_visible()


async def ended(page: Page, state: str = "done") -> None:
    """Watch a job to its end."""
    await expect(page.locator("#outcome .state")).to_have_text(state, timeout=RUN_SECONDS * 1000)


async def field(page: Page, group: str, label: str, value: str) -> None:
    """Fill in a field of the form, and leave it."""
    box = page.get_by_role("group", name=group, exact=True).get_by_label(label)
    await box.fill(value)
    await box.press("Tab")
    await checked(page)


async def test_an_experiment_is_made_run_watched_compared_and_taken_along(
    enter: Entrance, system: System, tmp_path: Path
) -> None:  # fmt: skip
    page = await enter("/lab")
    await follow(page.get_by_role("link", name="New experiment"))
    text = page.locator("#text")
    await checked(page)
    await field(page, "Experiment", "Name", "journey")
    await field(page, "Time", "Measured (s)", "2.0")
    await field(page, "Time", "Warm-up (s)", "0.2")
    await field(page, "Time", "Repetitions", "1")
    await field(page, "Clients: alice", "Clients", "1")
    await field(page, "Clients: bob", "Clients", "1")
    await expect(page.locator("#plan")).to_have_text("1 point, 1 run, 3 s of load")
    assert "# What this experiment measures" in await text.input_value()
    await assert_accessible(page)
    await follow(page.get_by_role("button", name="Save"))
    assert page.url == f"{system.web}/lab/experiments/journey"
    saved = tomllib.loads((system.data / "experiments" / "journey.toml").read_text())
    assert (saved["run"]["duration"], saved["clients"]["bob"]["count"]) == (2.0, 1)

    await page.get_by_label("analyse").uncheck()
    await follow(page.get_by_role("button", name="Run"))
    await expect(page.locator("#live[data-connected=yes]")).to_be_visible()
    await expect(page.locator("#label")).to_have_text("single, repetition 1", timeout=RUN_SECONDS * 1000)
    for chart in ("throughput", "response-time", "errors-over-time"):
        await page.wait_for_selector(f"#{chart}[data-drawn]", timeout=RUN_SECONDS * 1000)
    await assert_accessible(page)
    await ended(page)
    await expect(page.locator("#outcome")).to_contain_text("1 of 1 runs are done, 1 of them valid")
    await expect(page.locator("#log")).to_contain_text("1 of 1: single, repetition 1")

    await follow(page.get_by_role("link", name="Open result"))
    assert page.url == f"{system.web}/lab/series/journey-0001"
    await expect(page.get_by_text("the run is valid")).to_be_visible()
    await expect(page.get_by_role("cell", name="valid")).to_be_visible()
    await follow(page.get_by_role("link", name="Run 1", exact=True))
    await expect(page.get_by_role("row", name="clients.alice.count 1")).to_be_visible()
    await page.go_back()

    async with page.expect_download() as download:
        await page.get_by_role("link", name="Download as zip").click()
    await (await download.value).save_as(tmp_path / "series.zip")
    assert "journey-0001/runs/001-single-r1/run.json" in zipfile.ZipFile(tmp_path / "series.zip").namelist()

    await follow(page.get_by_role("link", name="Clone"))
    await checked(page)
    await expect(page.get_by_label("Name", exact=True)).to_have_value("journey-copy")
    await field(page, "Clients: alice", "Clients", "2")
    await follow(page.get_by_role("button", name="Save"))
    await page.get_by_label("analyse").uncheck()
    await follow(page.get_by_role("button", name="Run"))
    await ended(page)

    await page.goto("/lab")
    await page.get_by_label("Compare journey-0001").check()
    await page.get_by_label("Compare journey-copy-0001").check()
    await follow(page.get_by_role("button", name="Compare selected"))
    ratio = page.get_by_role("row", name=re.compile("^throughput"))
    await expect(ratio).to_contain_text("×")
    await expect(ratio).to_contain_text("one run each: no interval")
    settings = page.get_by_role("region", name="Settings that differ: table").get_by_role("row")
    assert [" ".join(row.split()) for row in await settings.all_inner_texts()] == [
        "Setting A B", "name journey journey-copy", "clients.alice.count 1 2",
    ]  # fmt: skip
    await assert_accessible(page)

    await page.goto("/lab")
    await page.get_by_label("Series as a zip file").set_input_files(tmp_path / "series.zip")
    await follow(page.get_by_role("button", name="Import"))
    await expect(page.get_by_role("heading", name="journey-0002")).to_be_visible()
    await follow(page.get_by_role("link", name="Delete"))
    await assert_accessible(page)
    await follow(page.get_by_role("button", name="Delete the series"))
    await expect(page.get_by_role("status").filter(has_text="series journey-0002 was deleted")).to_be_visible()
    assert not (system.data / "runs" / "journey-0002").exists()
    await page.goto("/audit")
    for action in ("save experiment", "queue run", "import series", "delete series"):
        await expect(page.get_by_text(action).first).to_be_visible()


async def test_a_series_is_analysed_and_shows_the_reports_figures(enter: Entrance, system: System) -> None:
    put(system, "figured", duration=3.0)
    page = await enter("/lab/experiments/figured")
    await follow(page.get_by_role("button", name="Run"))
    await ended(page)
    await follow(page.get_by_role("link", name="Open result"))
    figures = page.locator("[data-figure]")
    assert await figures.count() >= 5
    for figure in await figures.all():
        await figure.scroll_into_view_if_needed()
        await expect(figure).to_have_attribute("data-drawn", "light")
        await expect(figure.locator("svg.main-svg").first).to_be_visible()
    await expect(page.get_by_role("heading", name="Throughput over time")).to_be_visible()
    await page.get_by_text("Numbers of “Throughput over time”").click()
    await expect(page.get_by_role("region", name="Throughput over time: numbers")).to_contain_text("answers/s")
    await page.get_by_role("button", name="Use dark colours").click()
    await expect(figures.first).to_have_attribute("data-drawn", "dark")
    await looks_well(enter, "/lab/series/figured-0001")

    answer = await page.request.get("/lab/series/figured-0001/report.html")
    assert answer.headers["content-security-policy"].startswith("sandbox allow-scripts")
    await follow(page.get_by_role("link", name="Full report"))
    await expect(page.locator(".headline")).to_contain_text("The run is valid")
    await page.wait_for_selector("figure[data-drawn]")


async def test_the_text_is_checked_as_it_is_typed(enter: Entrance, system: System) -> None:
    put(system, "typed")
    page = await enter("/lab/experiments/typed", allowed="400")
    text = page.locator("#text")
    await checked(page)
    await text.fill((await text.input_value()).replace("count = 1", "count = many", 1))
    await expect(page.locator("#problems")).to_contain_text("not valid TOML")
    await text.fill(TINY.format(name="typed", duration=-2.0))
    await expect(page.locator("#problems li")).to_have_text("line 9: run.duration is -2.0; it must be more than 0")
    await expect(page.locator("#gutter .wrong")).to_have_text(re.compile("9"))
    await page.get_by_role("button", name="line 9").click()
    assert await text.evaluate("box => box.value.slice(box.selectionStart, box.selectionEnd)") == "duration = -2.0"
    await assert_accessible(page)
    await follow(page.get_by_role("button", name="Save"))
    await expect(page.get_by_role("alert")).to_contain_text("not saved")
    assert "duration = 2.0" in (system.data / "experiments" / "typed.toml").read_text()

    await page.goto("/lab/experiments/typed")
    await checked(page)
    await field(page, "Design", "Name of a new factor", "size")
    await expect(page.get_by_role("group", name="Factor: size")).to_be_visible()
    await field(page, "Factor: size", "Sets", "clients.alice.size")
    await field(page, "Factor: size", "Levels", "100, 200, 400")
    await expect(page.locator("#plan")).to_contain_text("3 points, 3 runs")
    await page.get_by_role("group", name="Clients: bob").get_by_label("Remove bob").check()
    await expect(page.get_by_role("group", name="Clients: bob")).to_have_count(0)
    assert "# As small as can be." in await text.input_value()
    assert "[clients.bob]" not in await text.input_value()


async def test_the_editor_needs_no_script(enter: Entrance, system: System) -> None:
    page = await enter("/lab/experiments/new", java_script_enabled=False, allowed="400")
    await page.get_by_role("group", name="Experiment").get_by_label("Name", exact=True).fill("plain")
    await page.get_by_role("group", name="Time").get_by_label("Measured (s)").fill("soon")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_contain_text("not saved")
    await expect(page.locator("#problems")).to_contain_text('run.duration is "soon"; it must be a number')
    await page.get_by_role("group", name="Time").get_by_label("Measured (s)").fill("4")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("main > .notice")).to_have_text("experiment plain was saved")
    assert tomllib.loads((system.data / "experiments" / "plain.toml").read_text())["run"]["duration"] == 4
    await page.get_by_role("link", name="Delete").click()
    await page.get_by_role("button", name="Delete the experiment").click()
    await expect(page.locator("main > .notice")).to_have_text("experiment plain was deleted")


async def test_a_run_is_stopped_and_waiting_jobs_are_moved(enter: Entrance, system: System) -> None:
    put(system, "endless", duration=900.0)
    page = await enter("/lab")
    for _ in range(3):
        await page.goto("/lab/experiments/endless")
        await page.get_by_label("new series").check()
        await follow(page.get_by_role("button", name="Run"))
    numbers = [int(page.url.rpartition("/")[2]) - back for back in (2, 1, 0)]
    await page.goto("/lab")
    await follow(page.get_by_role("button", name=f"Move job {numbers[2]} up"))
    jobs = page.locator("#jobs tbody th")
    await expect(jobs.nth(1)).to_have_text(f"Job {numbers[2]}")
    for number in numbers[1:]:
        await follow(page.get_by_role("button", name=f"Remove job {number}"))
    await page.goto(f"/lab/queue/{numbers[0]}")
    await expect(page.locator("#phase")).to_have_text(re.compile("warm-up|measure"), timeout=RUN_SECONDS * 1000)
    await looks_well(enter, f"/lab/queue/{numbers[0]}")
    await page.get_by_role("button", name="Stop").click()
    await ended(page, "stopped")
    await follow(page.get_by_role("link", name="Open result"))
    await expect(page.get_by_role("button", name="Resume")).to_be_visible()
    await looks_well(enter, "/lab/series/endless-0001", "/lab/series/endless-0001/runs/1")


async def test_the_library_is_there_to_be_cloned(enter: Entrance, system: System) -> None:
    page = await enter("/lab/library/smoke%2Fsweep")
    await expect(page.locator("#text")).not_to_be_editable()
    await expect(page.get_by_role("button", name="Save")).to_have_count(0)
    await follow(page.get_by_role("link", name="Clone"))
    await checked(page)
    await expect(page.get_by_label("Name", exact=True)).to_have_value("sweep-copy")
    assert "# One factor at several levels" in await page.locator("#text").input_value()


async def test_the_pages_look_well(enter: Entrance) -> None:
    await looks_well(enter, "/lab", "/lab/experiments/new", "/lab/library/ftab-6", "/lab/compare")


async def test_viewers_look_and_change_nothing(enter: Entrance, system: System) -> None:
    put(system, "seen")
    page = await enter("/lab", secret=system.viewers_secret(), allowed="403")
    await expect(page.get_by_role("link", name="New experiment")).to_have_count(0)
    await expect(page.get_by_role("button", name="Run")).to_have_count(0)
    await follow(page.get_by_role("link", name="seen", exact=True))
    await expect(page.locator("#text")).not_to_be_editable()
    await expect(page.get_by_role("button", name="Save")).to_have_count(0)
    token = await token_of(page)
    for path in ("/lab/experiments", "/lab/queue", "/lab/experiments/seen/delete", "/lab/import", "/lab/queue/1/stop"):
        assert (await forced(page, path, token=token)).status == 403, path
    assert (system.data / "experiments" / "seen.toml").exists()


async def test_a_form_of_another_page_changes_nothing(enter: Entrance, system: System) -> None:
    put(system, "guarded")
    page = await enter("/lab", allowed="403")
    token = await token_of(page)
    assert (await forced(page, "/lab/experiments/guarded/delete")).status == 403
    assert (
        await forced(page, "/lab/experiments/guarded/delete", token=token, origin="http://evil.example")
    ).status == 403
    assert (system.data / "experiments" / "guarded.toml").exists()
