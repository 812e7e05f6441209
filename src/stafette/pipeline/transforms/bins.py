"""Bins of response times: narrow for short ones, wide for long ones, with bounds on whole microseconds.

Up to 1024 µs a bin is 8 µs wide; from there on each range of eight times the last has bins eight times as wide: between
0.8 % and 6 % of what they hold. A few hundred bins do for anything, and shifts and sums find the bin of a value.

::

    value in µs     0 …     1024 …    8192 …     65,536 …     524,288 …     4,194,304 …     33,554,432 …
    width           8       64        512        4096         32,768        262,144         2,097,152
    first bin       0       128       240        352          464           576             688
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

RANGES = tuple((1024 * 8**step, 3 * step + 3, 112 * step) for step in range(7))
"""Upper bound, width as a power of two, and what is added to the value so shifted; the last has no bound."""
LARGEST = 2**18 - 1
"""The last bin, for anything above six days."""


def bin_of(value: Column) -> Column:
    """The bin of a value in whole microseconds."""
    (bound, width, shift), *others = RANGES
    found = F.when(value < bound, F.shiftright(value, width) + shift)
    for bound, width, shift in others[:-1]:
        found = found.when(value < bound, F.shiftright(value, width) + shift)
    _, width, shift = others[-1]
    return found.otherwise(F.least(F.shiftright(value, width) + shift, F.lit(LARGEST).cast("long")))


def bins_of(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same for numpy."""
    found = np.minimum((values >> RANGES[-1][1]) + RANGES[-1][2], LARGEST)
    for bound, width, shift in reversed(RANGES[:-1]):
        found = np.where(values < bound, (values >> width) + shift, found)
    return np.asarray(found, dtype=np.int64)


def lower_bounds(bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """The lowest value of each bin, in microseconds."""
    found = (bins - RANGES[-1][2]) << RANGES[-1][1]
    for bound, width, shift in reversed(RANGES[:-1]):
        found = np.where(bins < (bound >> width) + shift, (bins - shift) << width, found)
    return np.asarray(found, dtype=np.int64)
