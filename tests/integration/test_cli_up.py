"""`stafette up`, `status` and `down`: one command for everything, harmless when repeated."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import stafette
from tests.support.command_line import assert_one_sentence, stafette_process
from tests.support.command_line import stafette as command


@pytest.fixture
def data(tmp_path: Path) -> Iterator[str]:
    folder = str(tmp_path / "data")
    yield folder
    stafette_process("down", "--data", folder)


def test_everything_starts_works_and_stops(data: str) -> None:
    first = stafette_process("up", "--data", data, "--port", "0", "--no-web")
    again = stafette_process("up", "--data", data, "--port", "0", "--no-web")
    assert (first.returncode, again.returncode) == (0, 0), first.stderr + again.stderr
    url = first.stdout.strip()
    assert again.stdout.strip() == url
    assert "stafette down" in first.stderr

    with stafette.connect(url, name="alice") as client:
        client.create_queue("jobs")
        client.send("jobs", "kept")

    status = command("status", "--data", data, "--json")
    services = json.loads(status.stdout)
    assert (status.returncode, services["broker"], services["web"], services["data"]) == (0, url, None, data)
    assert services["database"].startswith("postgresql://")

    assert stafette_process("down", "--data", data).returncode == 0
    stopped = command("status", "--data", data, "--json")
    assert stopped.returncode == 3
    assert json.loads(stopped.stdout) == {"broker": None, "web": None, "database": None, "data": data}
    assert stafette_process("down", "--data", data).returncode == 0

    url = stafette_process("up", "--data", data, "--port", "0", "--no-web").stdout.strip()
    with stafette.connect(url, name="alice") as client:
        message = client.receive("jobs")
        assert message is not None
        assert message.text == "kept"


def test_a_taken_port_names_the_remedy(data: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert_one_sentence(
            stafette_process("up", "--data", data, "--port", port), 3, "choose another port with --port"
        )
