"""Random numbers of an experiment: sizes of messages, think times, priorities.

In an experiment file a distribution is a plain number, or a table with one key that names it.
"""

from __future__ import annotations

import random
from typing import Annotated, Any

import pydantic
from pydantic import BeforeValidator, Field

_STRICT = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Fixed(pydantic.BaseModel):
    """Always the same value."""

    model_config = _STRICT

    fixed: float = Field(ge=0)

    @property
    def mean(self) -> float:
        """The expected value."""
        return self.fixed

    def draw(self, _rng: random.Random) -> float:
        """Draw a value."""
        return self.fixed


class Uniform(pydantic.BaseModel):
    """Any value between two bounds, with equal probability."""

    model_config = _STRICT

    uniform: Annotated[tuple[float, float], Field(description="the least and the most")]

    @pydantic.model_validator(mode="after")
    def _check_order(self) -> Uniform:
        if not 0 <= self.uniform[0] <= self.uniform[1]:
            raise ValueError("uniform must be the least and the most, in that order and not negative")
        return self

    @property
    def mean(self) -> float:
        """The expected value."""
        return sum(self.uniform) / 2

    def draw(self, rng: random.Random) -> float:
        """Draw a value."""
        return rng.uniform(*self.uniform)


class Choice(pydantic.BaseModel):
    """One value of a list, with equal probability."""

    model_config = _STRICT

    choice: tuple[Annotated[float, Field(ge=0)], ...] = Field(min_length=1)

    @property
    def mean(self) -> float:
        """The expected value."""
        return sum(self.choice) / len(self.choice)

    def draw(self, rng: random.Random) -> float:
        """Draw a value."""
        return rng.choice(self.choice)


class Exponential(pydantic.BaseModel):
    """The exponential distribution, by its mean."""

    model_config = _STRICT

    exponential: float = Field(gt=0)

    @property
    def mean(self) -> float:
        """The expected value."""
        return self.exponential

    def draw(self, rng: random.Random) -> float:
        """Draw a value."""
        return rng.expovariate(1 / self.exponential)


def _from_number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a distribution is a number or a table such as { uniform = [100, 2000] }")
    return Fixed(fixed=value) if isinstance(value, int | float) else value


Distribution = Annotated[Fixed | Uniform | Choice | Exponential, BeforeValidator(_from_number)]
