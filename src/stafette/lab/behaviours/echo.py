"""ASL15's echo request."""

from __future__ import annotations

from stafette.lab.behaviours.parts import Sender, Sending


class Echo(Sender):
    """Has the broker send a body back, which measures all but the database (ASL15)."""

    Parameters = Sending

    async def step(self) -> None:
        """Send one body there and back."""
        await self.me.echo(self.body())
