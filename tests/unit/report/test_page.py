"""The report: verdict first, every figure with its numbers, nothing from outside, nothing from the data as markup."""

from __future__ import annotations

import functools
import html
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from stafette.errors import InvalidRequest
from stafette.report import page as report
from stafette.report.figures.table_rows import run_metadata
from stafette.report.headline import headline
from stafette.report.sections import sections
from stafette.report.sign_table import sign_table
from tests.support import sample_tables as sample

VOID = {"meta", "link", "br", "img", "input", "hr"}
MEBIBYTE = 2**20


class Page(HTMLParser):
    """What a browser would see: elements with their attributes, and the text between them."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.setdefault(tag, [])
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts[self.open[-1]].append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@functools.cache
def parsed(source: str) -> Page:
    """A page as a browser sees it; most of it is Plotly, which takes a second."""
    return Page(source)


def own_part(source: str) -> str:
    """The page without what is in Plotly's script, which has strings of all kinds."""
    before, script, rest = source.partition("<script>")
    return before + script + rest[rest.index("</script>") :]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    sweep = sample.sweep(2, numbers=(1, 8, 64))
    made = {"single": sample.single(), "sweep": sweep, "two_k": sample.two_k(), "hostile": sample.hostile()}
    return {name: report.render(*given) for name, given in made.items()}


@pytest.fixture(params=["single", "sweep", "two_k", "hostile"])
def page(request: pytest.FixtureRequest, pages: dict[str, str]) -> str:
    return pages[request.param]


def test_the_page_is_well_formed(page: str) -> None:
    seen = parsed(page)

    assert seen.open == []
    assert seen.all("html") == [{"lang": "en"}]
    ids = [attributes["id"] for _, attributes in seen.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {(attributes["href"] or "")[1:] for attributes in seen.all("a")}
    assert targets <= set(ids)
    assert {"key-figures", "over-time", "breakdown", "distribution", "method", "rejects"} <= targets


def test_headings_descend_one_step_at_a_time(page: str) -> None:
    levels = [int(tag[1]) for tag, _ in parsed(page).elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_the_verdict_comes_before_anything_else(pages: dict[str, str]) -> None:
    body = pages["sweep"][pages["sweep"].index("<body>") :]

    headline = body.index("1 of 6 runs is not valid; thresholds were missed.")
    reason = body.index("load-1 used 0.97 of a core, the load generator was the bottleneck")
    missed = body.index("threshold missed: p99_ms &lt; 50 (measured 81.5)")
    left_out = body.index(
        "1 run is not valid and left out of points, curves, effects and models: clients=64, repetition"
    )
    rejected = body.index("52,802 lines rejected: 50,000 the end is not a number; 2,802 three fields, not four")
    assert headline < reason < missed < left_out < rejected < body.index("<nav")
    assert rejected < body.index("<table>")
    assert rejected < body.index("<figure")


def test_validity_is_told_in_words(pages: dict[str, str]) -> None:
    assert "<strong>not valid</strong>" in pages["sweep"]
    assert pages["sweep"].count("<strong>valid</strong>") == 5
    assert "The run is valid; every threshold was reached." in pages["single"]


@pytest.mark.parametrize(
    ("valid", "expected"), [(True, "All 2 runs are valid."), (None, "There is no verdict on 2 of 2 runs."),
                            (False, "2 of 2 runs are not valid.")],
)  # fmt: skip
def test_headlines(valid: bool | None, expected: str) -> None:
    entries = [{"run": name, "label": name, "valid": valid} for name in ("a", "b")]
    runs = run_metadata({}, {"runs": entries})
    found = headline(runs, {}, {})
    assert found.headline == expected
    assert found.good is (valid is True)


def test_a_run_that_failed_is_not_valid_and_says_why() -> None:
    entry = {"run": "r", "label": "single", "valid": None, "state": "failed", "why": "broker-1 ended early"}
    found = headline(run_metadata({}, {"runs": [entry]}), {}, {})
    assert found.headline == "The run is not valid."
    assert found.lines[0].reason == "failed: broker-1 ended early"


def test_runs_that_share_a_label_are_told_apart() -> None:
    same = [{"run": name, "label": "single"} for name in ("a", "b")]
    repeated = [{"run": name, "label": "x", "repetition": place} for place, name in enumerate("cd", start=1)]
    titles = [run.title for run in run_metadata({}, {"runs": same + repeated})]
    assert titles == ["a", "b", "x, repetition 1", "x, repetition 2"]


def test_every_figure_has_its_numbers_and_a_caption(page: str) -> None:
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)

    assert len(figures) >= 7
    for figure in figures:
        (source,) = re.findall(r'<script type="application/json">(.*?)</script>', figure, re.DOTALL)
        assert "<" not in source  # nothing in it can end the element
        assert json.loads(source)["data"]
        (caption,) = re.findall(r"<figcaption>(.*?)</figcaption>", figure, re.DOTALL)
        assert re.search(r"\d", caption)
        assert "None" not in caption
        assert f"{html.unescape(caption)}" in html.unescape(re.findall(r'aria-label="(.*?)"', figure, re.DOTALL)[0])
        table = re.findall(r"<details>.*?<table>(.*?)</table>", figure, re.DOTALL)[0]
        assert table.count("<tr>") >= 2
        assert "<th" in table


def test_captions_speak_from_the_data(pages: dict[str, str]) -> None:
    single, sweep, two_k = (html.unescape(pages[name]) for name in ("single", "sweep", "two_k"))
    assert "send: median 8 ms, 99 % below 25.6 ms" in single
    interval = "(interval 1,901 to 1,939: 95 %, batches, n = 20)"
    assert f"1,920 answers per second in the measured window {interval}: send 900" in single
    assert "Mean of all operations: 10.2 ms (interval 9.89 to 10.5: 95 %, batches, n = 20)." in single
    assert "send takes 9.07 ms: database 38 %, broker: wait for the database 22 %, network and rest 20 %" in single
    assert "The broker's write is not stacked" in single
    assert "bars: 95 % confidence intervals (Student t over 2 repetitions)" in sweep
    assert "Band: 95 % confidence interval of the fit, Universal Scalability Law." in sweep
    assert "Universal Scalability Law is off by 2 % in answers per second" in sweep
    assert "7 of 14 measurements lie beyond the bounds" in sweep
    assert "Operational laws: 12 of 12 hold" in sweep
    assert "brokers explains 78.4 %" in two_k
    assert "Mean 41; strongest effects: brokers 21.5 (20.5 to 22.5)" in two_k
    assert "Bars: 95 % confidence intervals (Student t over 3 repetitions); 4 of 7 contain 0 (hollow)." in two_k
    assert "Strongest effect of each operation: send: brokers 10.8 (10.2 to 11.2); receive: brokers 8.60" in two_k


def test_captions_name_every_level_with_its_factor(pages: dict[str, str]) -> None:
    assert "from 192 answers per second at clients 1 to 2,167 at clients 32" in pages["sweep"]
    levels = "at size 2000 with brokers 1, connections 8 to {} at size 200 with brokers 2, connections 32"
    assert f"from 14.7 answers per second {levels.format('77.1')}" in pages["two_k"]
    assert f"send: from 7.35 answers per second {levels.format('38.5')}" in pages["two_k"]


def test_key_figures_say_which_interval_they_show(pages: dict[str, str]) -> None:
    def key(name: str) -> str:
        return pages[name][pages[name].index('<h2 id="key-figures">') : pages[name].index('<h2 id="over-time">')]

    assert "<td>95 %, batches, n = 20</td>" in key("single")
    assert f"<td>none: {sample.NO_INTERVAL}</td>" in key("single")
    assert "ratio estimator over batches of windows" in key("single")
    assert "<small>8.79 to 9.34</small>" in key("single")
    assert "no intervals over repetitions" in key("single")
    assert "interval of that mean (Student t over the" in key("sweep")
    assert "<small>2,059 to 2,275</small>" in key("sweep")


def test_sections_are_in_the_order_in_which_a_reader_asks(pages: dict[str, str]) -> None:
    order = [attributes["id"] for attributes in parsed(pages["sweep"]).all("h2")]
    assert order == ["contents", "key-figures", "over-time", "breakdown", "distribution", "curves", "points", "models",
                     "resources", "checks", "left-out", "method", "rejects"]  # fmt: skip


def test_the_sign_table_gives_the_effects_back() -> None:
    tables, _ = sample.two_k()
    grid = sign_table(tables, "mlmq-2k", "throughput")

    assert grid is not None
    assert list(grid.heads) == ["point", "I", "A", "B", "C", "AB", "AC", "BC", "ABC", "response"]
    assert [cell.text for cell in grid.rows[-1]][:5] == ["effect", "41", "21.5", "9.50", "−0.300"]
    assert [cell.text for cell in grid.rows[1]][:9] == ["2", "+1", "+1", "−1", "−1", "−1", "−1", "+1", "+1"]
    assert "A is brokers: −1 at 1, +1 at 2" in grid.note


def test_names_from_the_data_are_text(pages: dict[str, str]) -> None:
    source = pages["hostile"]
    assert sample.HOSTILE not in source
    scripts = parsed(source).all("script")
    assert all(set(attributes) <= {"type", "id"} for attributes in scripts)
    plain = [attributes for attributes in scripts if "type" not in attributes]
    assert len(plain) == 2  # Plotly's and our own
    assert "alert" not in "".join(str(attributes) for tag, attributes in parsed(source).elements if tag != "div")
    escaped = "&lt;script&gt;alert(1)&lt;/script&gt;"
    head = source[source.index("<header") : source.index("</header>")]
    assert head.count(escaped) >= 3  # experiment, label, sentence
    assert f"left out of points, curves, effects and models: {escaped}" in head
    assert f"1 line rejected: 1 {escaped}" in head
    assert f"(no interval: {escaped})" not in source  # there is an interval
    assert escaped in source[source.index('<h2 id="rejects">') :]
    assert escaped in source[source.index('<h2 id="checks">') : source.index('<h2 id="method">')]


def test_nothing_is_asked_for_from_outside(page: str) -> None:
    for _, attributes in parsed(page).elements:
        for name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#"), attributes
    assert not parsed(page).all("link")
    for style in re.findall(r"<style>(.*?)</style>", page, re.DOTALL):
        assert "url(" not in style
        assert "@import" not in style
    policy = [attributes["content"] for attributes in parsed(page).all("meta") if "http-equiv" in attributes]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"]
    assert not re.search(r"https?://", own_part(page))


def test_the_file_is_small_enough_to_send(page: str) -> None:
    assert len(page.encode()) < 8 * MEBIBYTE


def test_a_long_series_is_small_enough_too() -> None:
    tables, facts = sample.sweep(repetitions=9)
    assert len(facts["runs"]) == 63
    source = report.render(tables, facts)
    assert len(source.encode()) < 8 * MEBIBYTE
    assert "30 of 63 runs are drawn" in source
    options = re.findall(r"<option[^>]*>(.*?)</option>", source)
    assert "clients=64, repetition 9" in options  # it is not valid
    assert "clients=1, repetition 9" not in options
    assert len(options) == 4 * 30


def test_plotly_is_there_once(page: str) -> None:
    assert page.count("plotly.js v") == 1


def test_paper_and_dark_pages_are_thought_of(pages: dict[str, str]) -> None:
    assert "@media print" in pages["single"]
    assert "prefers-color-scheme: dark" in pages["single"]
    dark = json.loads(re.findall(r'id="dark-colours">(.*?)</script>', pages["single"])[0])
    used = set(re.findall(r'"color":"(#[0-9a-f]{6})', pages["single"]))
    assert used <= set(dark)


def test_one_run_has_no_chooser_and_many_have_one(pages: dict[str, str]) -> None:
    assert not parsed(pages["single"]).all("select")
    seen = parsed(pages["sweep"])
    assert len(seen.all("select")) == 4
    assert len(seen.all("option")) == 4 * 6
    assert all("for" in attributes for attributes in seen.all("label"))
    shown = [attributes for attributes in seen.all("figure") if attributes.get("data-run") == "0"]
    assert shown
    assert all("hidden" not in attributes for attributes in shown)
    later = [attributes for attributes in seen.all("figure") if attributes.get("data-run") == "5"]
    assert later
    assert all("hidden" in attributes for attributes in later)


def test_what_is_missing_is_said_once(pages: dict[str, str]) -> None:
    tables, facts = sample.single()
    source = report.render({"summary": tables["summary"]}, facts)
    for reason in ("There are no windows of time", "There is no breakdown", "There is no distribution",
                   "There are no curves", "There are no effects", "There are no models", "There are no samples",
                   "No law could be checked"):  # fmt: skip
        assert source.count(reason) == 1
    assert "<figure" not in source
    assert "There are no effects" in pages["single"]
    assert "Models of x: too few." in report.render(tables, {**facts, "notes": ["models of x: too few"]})
    assert "There are no effects" not in pages["two_k"]


@pytest.mark.parametrize("left_out", [*sample.PER_RUN, "points", "curves", "models", "rejects", "reject_reasons"])
def test_any_table_may_be_missing(left_out: str) -> None:
    tables, facts = sample.sweep(1, numbers=(64,))
    del tables[left_out]
    Page(own_part(report.render(tables, facts)))


def test_nothing_at_all_is_still_a_page() -> None:
    source = report.render({}, {})
    assert "There is no run in this analysis." in source
    parsed(source)


def test_the_method_names_machines_clocks_seeds_and_settings(pages: dict[str, str]) -> None:
    method = pages["single"][pages["single"].index('<h2 id="method">') : pages["single"].index("</main>")]
    for text in ("Nearest rank", "MSER-5", "40 s are measured, after 5 s of warm-up", "x86_64", "clock offset µs",
                 ">1.50<", "seed", "clients.larry.behaviour", "spark", "4.3.0"):  # fmt: skip
        assert text in method


def test_write_leaves_one_file(tmp_path: Path) -> None:
    given: dict[str, Any] = sample.single()[1]
    record = tmp_path / "run"
    record.mkdir()
    (record / "run.json").write_text(json.dumps({"revision": "3e2e329452b7", "seed": 99}))
    given["runs"][0]["folder"] = str(record)
    sample.write(tmp_path, sample.single()[0], given)

    path = report.write(tmp_path)

    assert path == tmp_path / "report.html"
    source = path.read_text("utf-8")
    assert "The run is valid" in source
    assert "3e2e329452b7" in source
    assert sorted(child.name for child in tmp_path.iterdir()) == ["facts.json", "report.html", "run", "tables"]


def test_write_without_an_analysis_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="make them with `stafette analyze`"):
        report.write(tmp_path)


def test_json_cannot_end_its_script_element() -> None:
    text = report._json(json.dumps({"name": "</script><!--&\u2028"}, ensure_ascii=False))
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == {"name": "</script><!--&\u2028"}


def test_phases_are_shown_with_and_without_a_figure(pages: dict[str, str]) -> None:
    tables, facts = sample.single()
    alone = report.render({name: tables[name] for name in ("summary", "phases")}, facts)
    for source in (pages["single"], alone):
        breakdown = source[source.index('<h2 id="breakdown">') :]
        table = breakdown[breakdown.index("Phases of each operation") :]
        assert "<td>broker: write</td>" in table[: table.index("</table>")]
    assert "Phases over time" in pages["single"]


def test_an_interval_that_only_one_value_has_says_why_the_other_has_none() -> None:
    tables, facts = sample.single()
    rows = [
        {**row, "throughput_low": None, "throughput_high": None, "interval_reason": "throughput: it has a trend"}
        for row in tables["summary"].to_pylist()
    ]
    source = report.render({**tables, "summary": sample.table("summary", rows)}, facts)
    assert "<td>95 %, batches, n = 20; none of throughput: it has a trend</td>" in source
    assert "answers per second in the measured window (no interval: throughput: it has a trend)" in source


def test_an_analysis_of_an_earlier_version_is_still_a_page(tmp_path: Path) -> None:
    """Its files lack columns, which are null when they are loaded."""
    tables, facts = sample.sweep(1, numbers=(64,))
    new_columns = {
        "summary": ["interval_kind", "interval_level", "interval_n", "interval_reason", "throughput_low"],
        "distribution": ["low_ms", "high_ms"],
        **{name: ["operation", "outcome", "stddev"] for name in ("points", "curves")},
    }
    for name, columns in new_columns.items():
        tables[name] = tables[name].drop_columns(columns)
    sample.write(tmp_path, tables, facts)
    source = report.write(tmp_path).read_text("utf-8")
    assert "There is no distribution" not in source  # there are shares
    assert "Distribution of the response time" not in source
    assert "There are no curves" in source


def test_runs_that_are_left_out_are_not_in_the_means_of_a_point() -> None:
    tables, metadata = sample.two_k(repetitions=2)
    run_ids = [entry["run"] for entry in metadata["runs"]]

    def points(left_out: list[str]) -> list[str]:
        runs = run_metadata(tables, metadata | {"left_out": left_out})
        titles = (drawing.title for section in sections(tables, runs) for drawing in section.drawings)
        return [title for title in titles if "at every point" in title]

    assert points([])
    assert points(run_ids[1::2]) == points([]), "a repetition of each point is left"
    assert not points(run_ids[2:]), "what is left is of one point"
