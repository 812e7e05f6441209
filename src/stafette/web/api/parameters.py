"""Parameters and bodies of the API's requests. Unknown fields and values beyond the database's bounds are refused."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from stafette.model import QUEUE_OPTIONS, QueueOption, QueueOptions

LARGEST = 2**63 - 1
YEAR = 366 * 86400.0
MOST_ITEMS = 500
LONGEST_WAIT = 30.0

Name = Annotated[str, Path(min_length=1, max_length=1000, description="Percent-encoded; `/` is `%2F`.")]
Text = Annotated[str, Query(max_length=200, description="Part of the name; upper and lower case are the same.")]
After = Annotated[str | None, Query(max_length=1000, description="The `next` of the previous page.")]
Limit = Annotated[int, Query(ge=1, le=MOST_ITEMS)]
MessageId = Annotated[int, Path(ge=0, le=LARGEST)]
Seconds = Annotated[float | None, Query(ge=0, le=100 * YEAR, allow_inf_nan=False)]


class _NamedQueue(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=200)

    @property
    def options(self) -> QueueOptions:
        """All fields but the name."""
        return QueueOptions.from_values(self.model_dump(exclude={"name"}))


def _with_options(base: type[_NamedQueue]) -> type[_NamedQueue]:
    """The model with one more field for each option of a queue."""
    fields: dict[str, Any] = {name: (option.type, _field(option)) for name, option in QUEUE_OPTIONS.items()}
    return create_model("WithOptions", __base__=base, **fields)


def _field(option: QueueOption) -> Any:
    low, high = option.bounds
    if option.kind == "flag":
        return Field(False, description=option.help)
    if option.kind == "number":
        return Field(None, ge=low, le=high, description=option.help)
    return Field(None, min_length=low, max_length=high, description=option.help)


class NewQueue(_with_options(_NamedQueue)):  # type: ignore[misc]
    """A queue to create."""


class NewMessage(BaseModel):
    """A message to send; its body is text or base64."""

    model_config = ConfigDict(extra="forbid")

    body: str | None = None
    body_base64: str | None = None
    receiver: str | None = Field(None, min_length=1, max_length=200)
    allow_unknown: bool = False
    priority: int = Field(5, ge=1, le=10)
    context: int | None = Field(None, ge=-LARGEST - 1, le=LARGEST)
    headers: dict[str, str] | None = None
    delay: float | None = Field(None, ge=0, le=YEAR, allow_inf_nan=False)
    ttl: float | None = Field(None, gt=0, le=YEAR, allow_inf_nan=False)
    key: str | None = Field(None, min_length=1, max_length=200)

    @model_validator(mode="after")
    def _one_body(self) -> NewMessage:
        if (self.body is None) == (self.body_base64 is None):
            raise ValueError("give either body or body_base64")
        self.content  # noqa: B018  (raises if it cannot be decoded)
        return self

    @property
    def content(self) -> bytes:
        """The body."""
        if self.body_base64 is None:
            return (self.body or "").encode()
        try:
            return base64.b64decode(self.body_base64, validate=True)
        except binascii.Error as error:
            raise ValueError(f"body_base64 is not base64: {error}") from error


class ReceiveRequest(BaseModel):
    """Which messages to receive, and how long to wait for the first."""

    model_config = ConfigDict(extra="forbid")

    count: int = Field(1, ge=1, le=MOST_ITEMS)
    sender: str | None = Field(None, min_length=1, max_length=200)
    context: int | None = Field(None, ge=-LARGEST - 1, le=LARGEST)
    order: Literal["priority", "arrival"] = "priority"
    wait: float | None = Field(None, ge=0, le=LONGEST_WAIT, allow_inf_nan=False)
    """Seconds to wait for the first message."""
