"""ASL15's echo request."""

from __future__ import annotations

from stafette.lab.behaviours.parts import Sender, SendParameters


class Echo(Sender):
    """Has the broker send a body back, which measures everything but the database (ASL15)."""

    Parameters = SendParameters

    async def step(self) -> None:
        """Send one body, and receive it back."""
        await self.client.echo(self.body())
