"""The page about the API: rendered from the OpenAPI description, so it needs no script and no network."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from stafette.web.access import Viewer
from stafette.web.api.answers import operations
from stafette.web.rendering import page

router = APIRouter()


@router.get("/api")
async def about(request: Request, _operator: Viewer) -> Response:
    """All operations by tag, and all schemas."""
    description = request.app.openapi()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, method, operation in operations(description):
        for tag in operation.get("tags", ["other"]):
            groups.setdefault(tag, []).append(_operation(path, method, operation))
    schemas = {name: _fields(schema) for name, schema in sorted(description["components"]["schemas"].items())}
    return page(request, "api.html", {"groups": groups, "schemas": schemas, "base": str(request.base_url)})


def _operation(path: str, method: str, operation: dict[str, Any]) -> dict[str, Any]:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    answers = [
        {"status": status, "type": _type_name(answer.get("content", {}).get("application/json", {}).get("schema", {}))}
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
                "location": parameter["in"],
                "required": parameter.get("required", False),
                "type": _type_name(parameter["schema"]),
                "text": parameter.get("description", ""),
            }
            for parameter in operation.get("parameters", [])
        ],
        "body": None if body is None else _type_name(body),
        "answers": answers,
    }


def _fields(schema: dict[str, Any]) -> dict[str, Any]:
    required = schema.get("required", [])
    return {
        "text": schema.get("description", "").partition("\n")[0],
        "fields": [
            {"name": name, "type": _type_name(field), "required": name in required}
            for name, field in schema.get("properties", {}).items()
        ],
    }


def _type_name(schema: dict[str, Any]) -> str:
    """A type in a few words; the page links the names of schemas."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_type_name(option) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"])
    name = str(schema.get("type", "anything"))
    if name == "array":
        return f"list of {_type_name(schema.get('items', {}))}"
    bounds = [f"{sign} {schema[key]:g}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    name = schema.get("format", name) if name == "string" else name
    return " ".join([name, *bounds])
