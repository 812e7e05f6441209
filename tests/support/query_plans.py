"""Reads the plans that PostgreSQL really uses inside functions.

EXPLAIN cannot look into a function. `debug_print_plan` can: the server then sends each plan it makes as text in its own
node notation, `{KIND :field value :field {KIND …} :field (list)}`. This turns that text into small trees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(r"[{}()]|[^\s{}()]+")
_CHILD_FIELDS = ("lefttree", "righttree", "subplan", "appendplans", "mergeplans")


@dataclass
class Node:
    """One node of PostgreSQL's notation."""

    kind: str
    fields: dict[str, list[object]] = field(default_factory=dict)

    def first(self, name: str) -> object:
        """A field's value; newer versions write a scan's fields with the struct they are in (`scan.scanrelid`)."""
        for key, values in self.fields.items():
            if key.rpartition(".")[2] == name and values:
                return values[0]
        return None

    def children(self) -> Iterator[Node]:
        """The plan nodes right below this one."""
        for key, values in self.fields.items():
            if key.rpartition(".")[2] in _CHILD_FIELDS:
                for value in values:
                    yield from (value if isinstance(value, list) else [value] if isinstance(value, Node) else [])


def parse(text: str) -> Node:
    """Read one node from its text."""
    tokens = iter(_TOKEN.findall(text))

    def value(token: str) -> object:
        if token == "{":
            node, current = Node(next(tokens)), ""
            for inner in tokens:
                if inner == "}":
                    return node
                if inner.startswith(":"):
                    current = inner[1:]
                    node.fields[current] = []
                else:
                    node.fields.setdefault(current, []).append(value(inner))
        if token == "(":
            items: list[object] = []
            for inner in tokens:
                if inner == ")":
                    return items
                items.append(value(inner))
        return token

    node = value(next(tokens))
    assert isinstance(node, Node)
    return node


@dataclass(frozen=True)
class Scan:
    """One scan of a table, with the kinds of the nodes above it, nearest first."""

    kind: str
    table: str
    index: str | None
    above: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} of {self.table} by {self.index} under {' < '.join(self.above) or 'nothing'}"


def scans(plan_text: str, names: dict[str, str]) -> Iterator[Scan]:
    """All scans of named relations (by oid) in a statement's plan and its subplans."""
    statement = parse(plan_text)
    tables = statement.first("rtable")
    assert isinstance(tables, list)
    subplans = statement.first("subplans")
    roots = [statement.first("planTree"), *(subplans if isinstance(subplans, list) else [])]

    def walk(node: Node, above: tuple[str, ...]) -> Iterator[Scan]:
        relation = node.first("scanrelid")
        if isinstance(relation, str) and relation != "0":
            entry = tables[int(relation) - 1]
            table = names.get(str(entry.first("relid")))
            if table:
                yield Scan(node.kind, table, names.get(str(node.first("indexid"))), above)
        for child in node.children():
            yield from walk(child, (node.kind, *above))

    for root in roots:
        if isinstance(root, Node):
            yield from walk(root, ())
