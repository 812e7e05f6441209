"""Load on the database without a broker, as in ASL15 and mlmq."""

from __future__ import annotations

from typing import ClassVar

import pydantic

from stafette.lab.behaviours.mix import Mix, MixParameters


class DatabaseOnlyParameters(MixParameters):
    """As for the mix."""

    @pydantic.model_validator(mode="after")
    def _check_no_echo(self) -> DatabaseOnlyParameters:
        if self.shares.echo:
            raise ValueError("an echo never reaches the database; leave it out of the shares")
        return self


class DatabaseOnly(Mix):
    """Makes the requests of the mix directly to the database; the difference is the cost of a broker (ASL15)."""

    Parameters = DatabaseOnlyParameters
    direct: ClassVar[bool] = True
