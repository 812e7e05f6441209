"""Whatever the API's description allows, and what it does not, is answered as described and never with a 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from stafette.web.api.answers import operations
from stafette.web.api.parameters import LONGEST_WAIT
from stafette.web.app import make_app
from stafette.web.site import WebSettings
from tests.support.stafette_up import System, whole_system

EXAMPLES = 25
LEFT_OUT = ("drain",)
"""Ending the one broker would make all others fail."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Everything, as one command starts it."""
    with whole_system(tmp_path_factory.mktemp("schemathesis") / "data") as found:
        yield found
        assert found.command("status").returncode == 0, "something ended"


def described_operations() -> list[str]:
    """The operations of the API, by method and path."""
    nowhere = Path("/nonexistent")
    described = make_app(WebSettings(database="", data=nowhere, runs=nowhere, experiments=nowhere)).openapi()
    return [f"{method} {path}" for path, method, _ in operations(described) if not path.endswith(LEFT_OUT)]


def is_wait(value: object) -> bool:
    """Whether the API takes this as a number of seconds, and waits."""
    try:
        return 0 < float(value) <= LONGEST_WAIT  # type: ignore[arg-type]  # else it is refused here as there
    except (TypeError, ValueError, OverflowError):
        return False


KNOWN = {"queue": "jobs", "client": "console", "message": 1}


@pytest.mark.slow
@pytest.mark.parametrize("operation", described_operations())
def test_no_server_error(running: System, operation: str) -> None:
    method, path = operation.split(" ")
    headers = {"Authorization": f"Bearer {running.secret}"}
    schema = schemathesis.openapi.from_dict(httpx.get(f"{running.web}/api/openapi.json").json())
    schema.config.update(base_url=running.web)
    tested = schema[path][method]
    good, bad = (tested.as_strategy(generation_mode=mode) for mode in GenerationMode)

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(case=good | bad, known=st.booleans())
    def everything(case: schemathesis.Case[Any], known: bool) -> None:
        if known:  # else nearly every name would be one that is not there
            httpx.post(f"{running.web}/api/v1/queues", headers=headers, json={"name": "jobs"})
            case.path_parameters = {name: KNOWN.get(name, value) for name, value in case.path_parameters.items()}
        if isinstance(case.body, dict) and is_wait(case.body.get("wait")):
            case.body["wait"] = 0.01  # a read that really waits would outlast the patience of this client
        response = case.call(headers=headers)
        case.validate_response(
            response, checks=[not_a_server_error, status_code_conformance, response_schema_conformance]
        )

    everything()
