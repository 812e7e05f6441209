"""The common style of all figures: the meaning of colours, dashes and markers, and how numbers are written.

Every operation and every phase has the same colour in all figures, and also its own dash, marker or pattern, so that a
black-and-white print is readable. The colours differ in lightness, for colour-blind readers. ``DARK`` has the
counterpart of each for dark pages; ``templates/report.js`` replaces them.
"""

from __future__ import annotations

import functools
import html
import math
import zlib
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from stafette.report.figures.table_rows import PLAIN_OUTCOMES
from stafette.runs.outcomes import ALL

INK, MUTED, GRID, PAPER = "#1b2530", "#56626f", "#e2e6ea", "#ffffff"
BLUE, VERMILION, GREEN, PURPLE = "#0067a5", "#c8500a", "#007a5a", "#8c4a97"
OCHRE, SKY, RED, GREY = "#8a6500", "#3987b8", "#b0263f", "#77828d"
PALE_BLUE, PALE_PURPLE, PALE_GREY, SAND = "#8dbddf", "#cda6d3", "#c3cad1", "#e3b76b"

DARK = {
    INK: "#e8edf2", MUTED: "#a9b4bf", GRID: "#333c46", PAPER: "#161b21",
    BLUE: "#58b0ea", VERMILION: "#ff9356", GREEN: "#3ecb9c", PURPLE: "#d592e0",
    OCHRE: "#dcae36", SKY: "#9ad3f7", RED: "#ff7d92", GREY: "#9aa5b0",
    PALE_BLUE: "#2f6f9f", PALE_PURPLE: "#7d4d87", PALE_GREY: "#56616c", SAND: "#9c7428",
}  # fmt: skip
"""The counterpart of each colour on a dark page."""

SHADE = "22"
"""Opacity of what lies behind the lines, as the last two digits of a colour."""
MAX_NAME = 40
MANY_POWERS = 6


@dataclass(frozen=True)
class LineStyle:
    """Colour, dash, marker and width of a series."""

    colour: str
    dash: str = "solid"
    symbol: str = "circle"
    width: float = 2


OPERATIONS = {
    ALL: LineStyle(INK, "solid", "circle", 2.5),
    "send": LineStyle(BLUE, "solid", "circle"),
    "receive": LineStyle(VERMILION, "dash", "square"),
    "peek": LineStyle(GREEN, "dot", "diamond"),
    "lease": LineStyle(PURPLE, "dashdot", "triangle-up"),
    "ack": LineStyle(OCHRE, "longdash", "x"),
    "echo": LineStyle(SKY, "longdashdot", "cross"),
    "waiting_queues": LineStyle(GREY, "dash", "triangle-down"),
}
_SPARE = tuple(
    LineStyle(colour, dash, symbol)
    for dash, symbol in (("solid", "star"), ("dash", "hexagon"), ("dot", "pentagon"), ("dashdot", "bowtie"))
    for colour in (GREY, SKY, OCHRE, PURPLE, GREEN)
)
_FAILED = (RED, "dot", "x")
_EMPTY = ("dot", "circle-open")

SEQUENCE = (
    LineStyle(BLUE, "solid", "circle"), LineStyle(VERMILION, "dash", "square"), LineStyle(GREEN, "dot", "diamond"),
    LineStyle(PURPLE, "dashdot", "triangle-up"), LineStyle(OCHRE, "longdash", "x"),
    LineStyle(SKY, "longdashdot", "cross"), LineStyle(GREY, "solid", "star"), LineStyle(INK, "dash", "hexagon"),
)  # fmt: skip
"""For lines without a fixed meaning: queues, processes, a family of curves."""


def line_style(operation: str, outcome: str = "ok") -> LineStyle:
    """The style of an operation: the same in every figure and every report."""
    own = OPERATIONS.get(operation) or _SPARE[zlib.crc32(operation.encode()) % len(_SPARE)]
    if outcome in PLAIN_OUTCOMES:
        return own
    if outcome == "empty":
        return LineStyle(own.colour, *_EMPTY, width=1.5)
    return LineStyle(*_FAILED, width=1.5)


@dataclass(frozen=True)
class Phase:
    """A part of the response time."""

    name: str
    """In the tables of phases."""
    column: str
    """In the breakdown."""
    label: str
    colour: str
    pattern: str = ""
    overlaps: bool = False
    """Whether it is also a part of another phase, so that it cannot be stacked."""


PHASES = (
    Phase("client_queue", "client_queue_ms", "client: wait for a connection", PALE_PURPLE),
    Phase("client_encode", "client_encode_ms", "client: encode", PURPLE),
    Phase("network", "unexplained_ms", "network and rest", PALE_GREY, "."),
    Phase("read", "read_ms", "broker: read", PALE_BLUE),
    Phase("decode", "decode_ms", "broker: decode", BLUE),
    Phase("queue", "queue_ms", "broker: wait for the database", SAND, "/"),
    Phase("database", "database_ms", "database", GREEN),
    Phase("parked", "parked_ms", "parked: wait for a message", GREY, "x"),
    Phase("encode", "encode_ms", "broker: encode", SKY, "\\"),
    Phase("write", "write_ms", "broker: write", INK, overlaps=True),
    Phase("client_read", "client_read_ms", "client: read", PURPLE, "-"),
)
"""In the order in which a request passes them; time that no phase explains is between client and broker.

While the broker writes, the answer is on its way: this time is part of “network and rest”.
"""
STACKED_PHASES = tuple(phase for phase in PHASES if not phase.overlaps)
"""Phases that add up to the response time."""


def plain(text: Any, limit: int = MAX_NAME) -> str:
    """A name from the data for Plotly: escaped, because Plotly interprets tags, and cut in the middle if too long."""
    words = " ".join(str(text).split())
    if len(words) > limit:
        words = f"{words[: limit * 2 // 3]}…{words[-(limit // 3 - 1) :]}"
    return html.escape(words, quote=False)


def number(value: Any, digits: int = 3) -> str:
    """A number for people: three significant digits, or all before the point, with thousands separators."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace("-", "−")
    if not math.isfinite(value):
        return "–"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", "−")
    size = math.floor(math.log10(abs(value)))
    if size < -digits - 1:
        return f"{value:.{digits - 1}e}".replace("-", "−")
    return f"{value:,.{max(0, digits - 1 - size)}f}".replace("-", "−")


def log_ticks(low: float, high: float) -> dict[str, Any]:
    """Ticks at 1, 2 and 5 of every power of ten, written out; Plotly's own omit the power."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) <= MANY_POWERS else (1,)
    values = [float(f"{step}e{power}") for power in powers for step in steps]
    return {"type": "log", "tickvals": values, "ticktext": [f"{value:,.10g}" for value in values]}


def short(value: float | None) -> float | None:
    """A value with five significant digits, so that the file stays small."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")


def percent(level: Any) -> str:
    """A confidence level in percent; empty if it is unknown."""
    return f"{100 * level:.6g} %" if isinstance(level, int | float) else ""


@functools.cache
def template() -> go.layout.Template:
    """Axes, fonts and margins of all figures."""
    axis = {
        "gridcolor": GRID, "zerolinecolor": GRID, "linecolor": MUTED, "tickcolor": MUTED, "showline": True,
        "ticks": "outside", "ticklen": 4, "automargin": True, "separatethousands": True, "exponentformat": "none",
        "title": {"standoff": 10, "font": {"size": 13}},
    }  # fmt: skip
    return go.layout.Template(
        layout={
            "font": {"family": "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", "size": 13, "color": INK},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "separators": ".,",
            "margin": {"l": 64, "r": 16, "t": 24, "b": 52},
            "hoverlabel": {"bgcolor": PAPER, "bordercolor": MUTED, "font": {"color": INK}},
            "legend": {
                "orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom",
                "bgcolor": "rgba(0,0,0,0)", "itemwidth": 40, "traceorder": "normal",
            },
            "xaxis": axis,
            "yaxis": {**axis, "rangemode": "tozero"},
            "bargap": 0.35,
        }
    )  # fmt: skip


def start() -> go.Figure:
    """An empty figure in the common style."""
    return go.Figure(layout={"template": template()})


def name_rows(figure: go.Figure, names: list[Any], limit: int = 46) -> None:
    """Label bars 0, 1, 2 … from the top. Positions, not names, identify them: two names may be equal when cut."""
    texts = [plain(name, limit) for name in names]
    figure.update_yaxes(
        tickvals=list(range(len(texts))), ticktext=texts, range=[len(texts) - 0.5, -0.5], ticklen=0, showgrid=False,
        zeroline=False, rangemode=None,
    )  # fmt: skip


def finish(figure: go.Figure, height: int) -> go.Figure:
    """Apply the common style."""
    figure.update_layout(template=template(), height=height, dragmode=False)
    return figure


def error_bars(middles: list[Any], lows: list[Any], highs: list[Any], colour: str) -> dict[str, Any] | None:
    """Confidence intervals as error bars; None if no point has one."""
    points = [(m, lo, hi) for m, lo, hi in zip(middles, lows, highs, strict=True)]
    if not any(lo is not None and hi is not None for _, lo, hi in points):
        return None
    above = [short(hi - m) if hi is not None and m is not None else 0.0 for m, _, hi in points]
    below = [short(m - lo) if lo is not None and m is not None else 0.0 for m, lo, _ in points]
    return {"type": "data", "symmetric": False, "array": above, "arrayminus": below,
            "color": colour, "thickness": 1.5, "width": 5}  # fmt: skip
