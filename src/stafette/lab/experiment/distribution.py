"""Numbers that vary from one draw to the next: sizes of messages, think times, priorities.

In an experiment file a distribution is a plain number, or a table with one key that names it.
"""

from __future__ import annotations

import random
from typing import Annotated, Any

import pydantic
from pydantic import BeforeValidator, Field

_STRICT = pydantic.ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Fixed(pydantic.BaseModel):
    """Always the same."""

    model_config = _STRICT

    fixed: float = Field(ge=0)

    @property
    def mean(self) -> float:
        """What it comes to in the long run."""
        return self.fixed

    def draw(self, _rng: random.Random) -> float:
        """One value."""
        return self.fixed


class Uniform(pydantic.BaseModel):
    """Anything between two bounds, all alike."""

    model_config = _STRICT

    uniform: Annotated[tuple[float, float], Field(description="the least and the most")]

    @pydantic.model_validator(mode="after")
    def _in_order(self) -> Uniform:
        if not 0 <= self.uniform[0] <= self.uniform[1]:
            raise ValueError("uniform wants the least and the most, in that order and not negative")
        return self

    @property
    def mean(self) -> float:
        """What it comes to in the long run."""
        return sum(self.uniform) / 2

    def draw(self, rng: random.Random) -> float:
        """One value."""
        return rng.uniform(*self.uniform)


class Choice(pydantic.BaseModel):
    """One of a list, all alike."""

    model_config = _STRICT

    choice: tuple[Annotated[float, Field(ge=0)], ...] = Field(min_length=1)

    @property
    def mean(self) -> float:
        """What it comes to in the long run."""
        return sum(self.choice) / len(self.choice)

    def draw(self, rng: random.Random) -> float:
        """One value."""
        return rng.choice(self.choice)


class Exponential(pydantic.BaseModel):
    """Memoryless, given by its mean."""

    model_config = _STRICT

    exponential: float = Field(gt=0)

    @property
    def mean(self) -> float:
        """What it comes to in the long run."""
        return self.exponential

    def draw(self, rng: random.Random) -> float:
        """One value."""
        return rng.expovariate(1 / self.exponential)


def _number_is_fixed(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a distribution is a number or a table such as { uniform = [100, 2000] }")
    return Fixed(fixed=value) if isinstance(value, int | float) else value


Distribution = Annotated[Fixed | Uniform | Choice | Exponential, BeforeValidator(_number_is_fixed)]
