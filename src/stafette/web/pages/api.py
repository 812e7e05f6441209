"""The page about the API: made from its description, so it needs no script and no network."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from stafette.web.access import Viewer
from stafette.web.api.answers import operations
from stafette.web.rendering import page

router = APIRouter()


@router.get("/api")
async def about(request: Request, _who: Viewer) -> Response:
    """All operations, by what they are about, and all schemas."""
    description = request.app.openapi()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, method, operation in operations(description):
        for tag in operation.get("tags", ["other"]):
            groups.setdefault(tag, []).append(_shown(path, method, operation))
    schemas = {name: _fields(schema) for name, schema in sorted(description["components"]["schemas"].items())}
    return page(request, "api.html", {"groups": groups, "schemas": schemas, "base": str(request.base_url)})


def _shown(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    answers = [
        {"status": status, "kind": _kind(answer.get("content", {}).get("application/json", {}).get("schema", {}))}
        for status, answer in operation["responses"].items()
        if int(status) < 300
    ]
    return {
        "path": path,
        "method": method,
        "id": operation["operationId"],
        "summary": operation.get("description", operation["summary"]),
        "parameters": [
            {
                "name": parameter["name"],
                "place": parameter["in"],
                "needed": parameter.get("required", False),
                "kind": _kind(parameter["schema"]),
                "text": parameter.get("description", ""),
            }
            for parameter in operation.get("parameters", [])
        ],
        "body": None if body is None else _kind(body),
        "answers": answers,
    }


def _fields(schema: dict[str, Any]) -> dict[str, Any]:
    needed = schema.get("required", [])
    return {
        "text": schema.get("description", "").partition("\n")[0],
        "fields": [
            {"name": name, "kind": _kind(kind), "needed": name in needed}
            for name, kind in schema.get("properties", {}).items()
        ],
    }


def _kind(schema: dict[str, Any]) -> str:
    """A type in a few words; the name of a schema is linked by the page."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(str(one) for one in schema["enum"])
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    bounds = [f"{sign} {schema[key]:g}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    kind = schema.get("format", kind) if kind == "string" else kind
    return " ".join([kind, *bounds])
