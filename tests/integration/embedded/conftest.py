"""Embedded servers that end with their tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from stafette.database.embedded import EmbeddedPostgres
from tests.support.embedded_servers import Make


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Make servers that are stopped in the end, started or not."""
    with ExitStack() as clean_up:

        def make_server(
            data: Path = tmp_path / "data", *, tcp: bool = False, binaries: Path | None = None
        ) -> EmbeddedPostgres:
            server = EmbeddedPostgres(data, tcp=tcp, binaries=binaries)
            clean_up.callback(server.stop)
            return server

        yield make_server


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server for the tests that only look."""
    server = EmbeddedPostgres(tmp_path_factory.mktemp("running"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can enter; tmp_path is the test's user's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
