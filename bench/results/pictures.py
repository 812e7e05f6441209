"""Writes the figures of the report as SVG files, drawn by plotly's script in a browser that loads nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import plotly.graph_objects as go
from playwright.async_api import async_playwright
from plotly.offline import get_plotlyjs

from bench.results.evidence import Evidence
from stafette.errors import InvalidRequest
from stafette.report import figures

WIDTH = 760
TALLEST = 620
DRAW = """async ([figure, width]) => {
  const height = figure.layout.height || 400;
  const address = await Plotly.toImage(figure, {format: 'svg', width, height});
  return decodeURIComponent(address.slice(address.indexOf(',') + 1));
}"""


def of(evidence: Evidence) -> Iterator[tuple[str, str, go.Figure]]:
    """The figures of an experiment: name of the file, caption, figure."""
    tables, name = evidence.tables, evidence.name
    if evidence.design == "2k":
        for metric, title in (("throughput", "throughput"), ("mean_ms", "mean response time")):
            if (figure := figures.variation(tables, name, metric)) is not None:
                yield f"{name}-{metric}", f"share of the variation of {title} that each effect explains", figure
    elif evidence.design == "single":
        run = evidence.runs[0]
        for kind, draw in (
            ("throughput", figures.throughput_over_time),
            ("response-time", figures.response_time_over_time),
        ):
            if (figure := draw(tables, run.run, run.stages(tables))) is not None:
                yield f"{name}-{kind}", f"{kind.replace('-', ' ')} over time", figure
    else:
        factor = next(reversed(evidence.runs[0].levels))
        if (figure := figures.scaling_curve(tables, name, factor)) is not None:
            yield name, f"throughput and response time against {factor}", figure


def draw(figures_by_name: Mapping[str, go.Figure], folder: Path) -> None:
    """Draw all figures into a folder, and delete the old ones."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    asyncio.run(_draw(figures_by_name, folder))


async def _draw(figures_by_name: Mapping[str, go.Figure], folder: Path) -> None:
    chromium = os.environ.get("STAFETTE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise InvalidRequest("plots need a browser; install Debian's chromium, or name one in STAFETTE_CHROMIUM")
    unsafe = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=unsafe)
        page = await browser.new_page()
        await page.add_script_tag(content=get_plotlyjs())
        for name, figure in figures_by_name.items():
            figure.update_layout(height=min(figure.layout.height or 400, TALLEST))
            svg = await page.evaluate(DRAW, [json.loads(figure.to_json()), WIDTH])
            (folder / f"{name}.svg").write_text(_with_stable_ids(svg), encoding="utf-8")
        await browser.close()


def _with_stable_ids(svg: str) -> str:
    """Replace the script's random ids by numbers, so that the same figure gives the same file."""
    stable_ids: dict[str, str] = {}
    for random_id in re.findall(r"(?:clip|topdefs-|defs-|g)([0-9a-f]{6})(?=[xyl\W])", svg):
        stable_ids.setdefault(random_id, f"{len(stable_ids):06d}")
    for old, new in stable_ids.items():
        svg = svg.replace(old, new)
    return svg
