"""Texts of experiments are read in a process of their own, so that no text stalls or fills the console."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from stafette.errors import InvalidRequest, Overloaded, StafetteError
from stafette.lab.experiment import toml_limits
from stafette.lab.experiment.reach import Reach
from stafette.lab.jobs.job_child import JobChild
from stafette.web.lab.editor_state import EditorState

CHECK_SECONDS = 20.0
"""How long a check may take, with the start of the process; the largest design there may be takes a few."""
MOST_WAITING = 10
"""Checks that wait for others; a page that is refused one can be loaded again."""


class TextChecks:
    """Has texts checked one after the other, by a process that is started when it is first needed."""

    def __init__(self, experiments: Path, reach: Reach) -> None:
        self._experiments = experiments.resolve()
        self._reach = reach
        self._child: JobChild | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def check(
        self,
        text: str,
        *,
        folder: Path | None = None,
        name: str | None = None,
        changes: Sequence[tuple[str, str]] = (),
        rename: str | None = None,
    ) -> EditorState:
        """Check a text; `folder` has the behaviours that it may name, `changes` are fields of the form."""
        toml_limits.check_size(len(text.encode(errors="replace")))
        toml_limits.check_size(sum(len(path) + len(value) for path, value in changes))
        order = {
            "type": "CheckText", "text": text, "folder": str(folder or self._experiments), "name": name,
            "changes": [list(change) for change in changes], "rename": rename,
        }  # fmt: skip
        return msgspec.convert(await self._ask(order), EditorState)

    async def check_series(self, folder: Path) -> None:
        """Raise InvalidRequest unless the series in a folder can go on."""
        await self._ask({"type": "CheckSeries", "folder": str(folder)})

    async def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None:
            await child.kill()

    async def _ask(self, order: Mapping[str, Any]) -> Any:
        if self._waiting >= MOST_WAITING:
            raise Overloaded("many experiments are being checked; try again in a moment")
        self._waiting += 1
        try:
            async with self._turn:
                end = await self._answer({**order, "reach": msgspec.to_builtins(self._reach)})
        finally:
            self._waiting -= 1
        if (refusal := end.get("refusal")) is not None:
            raise InvalidRequest(refusal)
        return end["answer"]

    async def _answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """The process' answer; one that gives none in time is ended, and the next check starts another."""
        if self._child is None or self._child.ended:
            await self.close()
            self._child = await JobChild.start("stafette.web.lab.editor_process", Path("/"))
        end = None
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                end = await self._child.work(order, lambda _event: None)
        except TimeoutError as error:
            raise InvalidRequest(
                f"the experiment could not be checked within {CHECK_SECONDS:.0f} seconds; give it fewer groups,"
                " levels or profiles"
            ) from error
        except (StafetteError, ValueError) as error:  # ValueError: an answer that is too long to be read
            raise InvalidRequest(
                f"the experiment could not be checked ({error}); give it fewer groups, levels or profiles"
            ) from error
        finally:
            if end is None:
                await self.close()
        return end
