"""The reports' own figures, worked out again from their own tables.

What is printed there is rounded, or cut off; a figure is confirmed when some values that round to what the table shows
give it. What cannot be confirmed is named in docs/explanation/statistics.md, with the right figure, and here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from stafette.statistics.factorial import Analysis, analyse
from stafette.statistics.intervals import deviation_interval_from, mean_interval_from
from stafette.statistics.linear import design_matrix, fit_interactions, interactions
from tests.support.ftab_tables import Printed, ftab

# mlmq, figure 12: clients, brokers, workers, database connections; the last varies fastest

MEDIANS = [6.80, 7.46, 6.87, 7.21, 5.11, 7.55, 5.90, 7.60, 14.08, 12.80, 13.42, 13.97, 12.43, 14.85, 12.88, 15.05]
COUNTS = [1996478, 1806665, 2062704, 2060655, 1385552, 1910840, 1975889, 1920835]
COUNTS += [2488948, 2451248, 2428769, 2511260, 2329883, 2110459, 2266237, 2166303]

MLMQ_EFFECTS = [
    "mean",
    *"cbwd",
    "c:b",
    "c:w",
    "c:d",
    "b:w",
    "b:d",
    "w:d",
    "b:w:d",
    "c:w:d",
    "c:b:d",
    "c:b:w",
    "c:b:w:d",
]
"""Figure 14: the columns of its sign table, in its order."""

MLMQ_SIGNS = [
    "+----++++++----+",
    "+---+++-+--+++--",
    "+--+-+-+-+-++-+-",
    "+--+++----+--+++",
    "+-+---++--++-++-",
    "+-+-+-+--+--+-++",
    "+-++---++---++-+",
    "+-+++---++++----",
    "++------+++-+++-",
    "++--+--++--+--++",
    "++-+--+--+-+-+-+",
    "++-++-++--+-+---",
    "+++--+----+++--+",
    "+++-++-+-+---+--",
    "++++-++-+-----+-",
    "++++++++++++++++",
]

MEDIAN_WEIGHTS = "10.24 3.43 -0.07 0.11 0.56 0.19 0.03 -0.08 0.07 0.52 0.03 -0.15 0.16 0.13 -0.05 -0.10"
COUNT_WEIGHTS = (
    "2117045 227093 -108795 57036 237 -17122 -58032 -34558 17030 18621 -9556 -48050 39516 -64140 -17984 47962"
)


def mlmq(responses: Sequence[float]) -> Analysis:
    rows = list(product((15, 30), (4, 8), (4, 8), (4, 8)))
    return analyse({name: [row[place] for row in rows] for place, name in enumerate("cbwd")}, responses)


def test_the_sign_table_of_mlmq() -> None:
    found = mlmq(MEDIANS)
    ours = {effect.name: [row.signs[place] for row in found.combinations] for place, effect in enumerate(found.effects)}
    for place, name in enumerate(MLMQ_EFFECTS):
        assert ours[name] == [1 if row[place] == "+" else -1 for row in MLMQ_SIGNS]


@pytest.mark.parametrize(
    ("responses", "weights", "digits"), [(MEDIANS, MEDIAN_WEIGHTS, 2), (COUNTS, COUNT_WEIGHTS, 0)], ids=["PT", "RC"]
)
def test_the_weights_of_mlmq_are_cut_off_not_rounded(responses: Sequence[float], weights: str, digits: int) -> None:
    found = mlmq(responses)
    for name, printed in zip(MLMQ_EFFECTS, weights.split(), strict=True):
        value = round(found.effect(name).value * 10**digits, 6)
        assert math.trunc(value) == round(float(printed) * 10**digits)


def test_what_mlmq_concludes_from_them() -> None:
    """Response time is all clients. For the count, brokers come second and database connections are nothing at all."""
    times, counts = mlmq(MEDIANS), mlmq(COUNTS)
    shares = {name: times.effect(name).share for name in ("c", "d", "b:d", "b")}
    assert shares == pytest.approx({"c": 94.02, "d": 2.52, "b:d": 2.23, "b": 0.05}, abs=0.005)
    shares = {name: counts.effect(name).share for name in ("c", "b", "c:b:d", "d")}
    assert shares == pytest.approx({"c": 62.24, "b": 14.29, "c:b:d": 4.97, "d": 0.0001}, abs=0.005)


# ASL15, table 10, with the signs that its table 9 gives to levels: the first row is all +1

THROUGHPUTS = [8536.6567, 8078.0933, 6525.1867, 6281.6167, 3469.7, 3486.2733, 3520.4267, 3408.5833]
RESPONSE_TIMES = [10.1741, 9.6066, 6.713, 6.0935, 1.9338, 1.6958, 1.7648, 1.7935]
ASL15_EFFECTS = ["A", "B", "C", "A:B", "A:C", "B:C", "A:B:C"]


def asl15(responses: list[float]) -> Analysis:
    rows = list(product((1, -1), repeat=3))
    return analyse({name: [row[place] for row in rows] for place, name in enumerate("ABC")}, responses)


def of_each(analysis: Analysis) -> list[float]:
    return [analysis.effect(name).value for name in ASL15_EFFECTS]


def test_the_weights_of_asl15() -> None:
    throughput, time = asl15(THROUGHPUTS), asl15(RESPONSE_TIMES)
    assert throughput.effect("mean").value == pytest.approx(5413.32, abs=0.005)
    assert of_each(throughput) == pytest.approx([1942.07, 479.36, 99.68, 472.62, 75.86, 10.82, 42.93], abs=0.005)
    assert time.effect("mean").value == pytest.approx(4.97, abs=0.005)
    assert of_each(time) == pytest.approx([3.17, 0.88, 0.17, 0.86, 0.12, 0.03, -0.04], abs=0.005)


def test_the_percentages_of_asl15_are_of_the_sum_of_weights() -> None:
    """Two of those for the response time are off: 61.06 and 16.94 are printed, and all seven add up to 100.05."""
    weights = np.array(of_each(asl15(THROUGHPUTS)))
    printed = [62.18, 15.35, 3.19, 15.13, 2.43, 0.35, 1.37]
    assert (100 * weights / weights.sum()).tolist() == pytest.approx(printed, abs=0.005)
    weights = np.array(of_each(asl15(RESPONSE_TIMES)))
    right = [61.03, 16.93, 3.36, 16.59, 2.35, 0.52, -0.77]
    assert (100 * weights / weights.sum()).tolist() == pytest.approx(right, abs=0.005)


def test_the_shares_of_variation_that_asl15_meant() -> None:
    for responses, right in (
        (THROUGHPUTS, [88.90, 5.42, 0.23, 5.27, 0.14, 0.00, 0.04]),
        (RESPONSE_TIMES, [86.54, 6.66, 0.26, 6.39, 0.13, 0.01, 0.01]),
    ):
        found = asl15(responses)
        assert [found.effect(name).share for name in ASL15_EFFECTS] == pytest.approx(right, abs=0.005)


# FTaB

HALF_A_DIGIT = 0.05 + 1e-9
CANDIDATES = sorted({*range(2, 100), *np.geomspace(100, 3e6, 1500).astype(int).tolist()})
"""Counts to try; the steps of the large ones are of 0.7 %, far finer than rounded bounds can tell."""


def fits_mean(row: Printed, count: int, level: float = 0.95, half: float = HALF_A_DIGIT) -> bool:
    """Whether so many values give the printed interval: its bounds, and its width, in which the mean has no part."""
    found = mean_interval_from(row.mean, row.deviation, count, level)
    assert found.low is not None
    assert found.high is not None
    reach = (found.high - row.mean) / row.deviation
    ends = all(
        abs(ours - theirs) <= half * (2 + reach)
        for ours, theirs in zip((found.low, found.high), row.of_mean, strict=True)
    )
    width = (found.high - found.low) - (row.of_mean[1] - row.of_mean[0])
    return ends and abs(width) <= 2 * half * (1 + reach)


def fits_deviation(row: Printed, count: int) -> bool:
    found = deviation_interval_from(row.deviation, count)
    assert found.low is not None
    assert found.high is not None
    return all(
        abs(ours - theirs) <= HALF_A_DIGIT * (1 + ours / row.deviation)
        for ours, theirs in zip((found.low, found.high), row.of_deviation, strict=True)
    )


def counts_of(row: Printed) -> list[int]:
    """The counts, which are not printed, that give both intervals."""
    return [count for count in CANDIDATES if fits_mean(row, count) and fits_deviation(row, count)]


WRONG = {("7.6", 160.0), ("7.6", 180.0)}


@pytest.mark.parametrize("table", ["7.6", "7.7", "7.8", "8.2", "8.3", "8.6", "8.7"])
def test_intervals_of_response_times_of_ftab_follow_from_one_count(table: str) -> None:
    for row in ftab(table):
        found = counts_of(row)
        if (table, row.point[0]) in WRONG:
            assert not found
        else:
            assert found
            assert min(found) > 80_000


@pytest.mark.parametrize("table", ["8.4", "8.8", "8.9"])
def test_intervals_of_throughputs_of_ftab_are_of_21_windows(table: str) -> None:
    for row in ftab(table):
        assert counts_of(row) == [21]


def test_two_intervals_of_table_7_6_that_do_not_follow() -> None:
    """160 clients: 97.33 - 98.4 is not around 98.0. 180 clients: 159.1 - 159.7 is not that of 159.5; 159.9 is above."""
    rows = {row.point[0]: row for row in ftab("7.6")}
    counts = [count for count in CANDIDATES if fits_deviation(rows[160], count)]
    assert not any(fits_mean(rows[160], count) for count in CANDIDATES)
    right = rows[160]._replace(of_mean=(97.4, 98.6))
    assert any(fits_mean(right, count) for count in counts)
    assert not any(fits_deviation(rows[180], count) for count in CANDIDATES if fits_mean(rows[180], count))
    assert counts_of(rows[180]._replace(of_deviation=(159.1, 159.9)))


def test_table_7_6_has_ten_times_as_many_values_as_its_text_says() -> None:
    """Around 20 thousand, says the text; with those the mean of the first row would be between 21.2 and 22.4."""
    first, *_ = rows = ftab("7.6")
    assert all(min(counts_of(row)) > 120_000 for row in rows if ("7.6", row.point[0]) not in WRONG)
    assert not fits_mean(first, 20_000)
    found = mean_interval_from(first.mean, first.deviation, 20_000)
    assert (found.low, found.high) == pytest.approx((21.2, 22.4), abs=0.05)


@pytest.mark.parametrize(
    ("mean", "deviation", "bounds", "count", "half"),
    [
        (42.9, 20.6, (42.8, 42.9), 2_000_000, 0.05),
        (48.1, 21.4, (48.0, 48.1), 2_000_000, 0.05),
        (26.9, 17.2, (26.8, 26.9), 2_000_000, 0.05),
        (22.8, 16.3, (22.8, 22.9), 2_000_000, 0.05),
        (309, 2, (308, 310), 113, 0.5),
    ],
)
def test_table_7_2_of_ftab(mean: float, deviation: float, bounds: tuple[float, float], count: int, half: float) -> None:
    """At 99.9 %: of about two million response times, as its text says, and of minutes from 200 s to 7000 s."""
    row = Printed((), mean, deviation, bounds, (0, 0))
    assert fits_mean(row, count, 0.999, half + 1e-9)
    assert not fits_mean(row, count // 10, 0.999, half + 1e-9)


# FTaB's linear models: (8.1) to (8.4) over clients per thread, threads and servers, and those of experiment 6

MODELS = {
    "8.1": ("8.6", "cts", "-3.37 14.1 0.1 1.2 -0.6 -3.11 0.25 1.26"),
    "8.2": ("8.7", "cts", "-4.50 11.1 0.6 2.6 -0.4 -1.2 -0.74 1.1"),
    "8.3": ("8.8", "cts", "140.63 0.9 10.6 40.7 -0.08 0.27 -2.05 0.013"),
    "8.4": ("8.9", "cts", "116.2 -0.14 14.2 87.6 0.03 -0.47 1.22 -0.07"),
    "read": (
        "8.2",
        "mqsr",
        "205.3 0.0544 -55.8 -1.74 -1.29 -0.0078 0.00036 -0.0013 0.86 0.82 0.04 "
        "0.000011 0.00015 0.000012 -0.0091 -0.0000013",
    ),
    "send": (
        "8.3",
        "mqsr",
        "-121.7 0.21 -14.1 2.6 2.42 -0.026 -0.0024 -0.003 0.35 0.29 -0.018 0.00031 0.00036 0.000044 -0.0019 -0.0000048",
    ),
}


def unconfirmed(model: str, clients_in: float = 1.0) -> dict[str, float]:
    """The terms whose coefficient cannot be what is printed, with what it is; `clients_in` is what s and r count in."""
    table, factors, printed = MODELS[model]
    rows = ftab(table)
    unit = dict.fromkeys("mqcts", 1.0) | ({"s": clients_in, "r": clients_in} if "r" in factors else {})
    columns = {name: [row.point[place] / unit[name] for row in rows] for place, name in enumerate(factors)}
    found = fit_interactions(columns, [row.mean for row in rows])
    rounded_means = np.abs(np.linalg.inv(design_matrix(columns, interactions(factors)))).sum(axis=1) * 0.05
    wrong = {}
    for coefficient, text, slack in zip(found.coefficients, printed.split(), rounded_means, strict=True):
        digits = len(text.partition(".")[2])
        if abs(coefficient.value - float(text)) > 0.5 * 10**-digits + slack:
            wrong[coefficient.name] = coefficient.value
    return wrong


@pytest.mark.parametrize("model", ["8.1", "8.2", "8.3"])
def test_the_linear_models_of_ftab(model: str) -> None:
    assert unconfirmed(model) == {}


def test_a_coefficient_of_model_8_4_of_ftab_is_off_by_a_digit() -> None:
    """1.22 is printed for threads times servers."""
    assert unconfirmed("8.4") == pytest.approx({"t:s": 1.12}, abs=0.005)


@pytest.mark.parametrize("model", ["read", "send"])
def test_the_models_of_experiment_6_count_clients_per_server(model: str) -> None:
    """There were two servers: with all clients, as in the tables, no term with senders or readers comes out.

    One coefficient is cut off: -0.018 is printed for senders times readers.
    """
    cut_off = {"s:r": -0.0186} if model == "send" else {}
    assert unconfirmed(model, clients_in=2.0) == pytest.approx(cut_off, abs=5e-5)
    assert {"s", "r", "q:s", "q:r", "s:r"} <= unconfirmed(model).keys()


def test_ftab_s_comparison_of_its_two_clusters() -> None:
    """240 clients of 7.6 with 120 + 120 of 8.3: 64 ms (44 %) and half the deviation more, not 80 ms, 50 % and 100 %."""
    before = next(row for row in ftab("7.6") if row.point == (240,))
    after = next(row for row in ftab("8.3") if row.point == (2000, 1, 120, 120))
    assert after.mean - before.mean == pytest.approx(64.4)
    assert after.mean / before.mean == pytest.approx(1.441, abs=5e-4)
    assert after.deviation / before.deviation == pytest.approx(1.490, abs=5e-4)
