"""What all tests stand on, and how they are shared out when several processes run them."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

import stafette.aio
from stafette.broker.limits import Limits
from stafette.broker.runtime import Runtime
from stafette.broker.server import BrokerSettings, running
from stafette.client.aio import Client
from tests.support.brokers import Connect, StartBroker
from tests.support.databases import Databases, serve
from tests.support.java_options import SHORT_LIVED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
ONE_OF_EACH = {"browser": "browser", "integration/pipeline": "spark"}
"""Tests of these folders run in one process, because they share a browser, or a Spark, that is slow to start."""
APART = ("browser/test_lab.py",)
"""Long enough to be worth a browser of its own."""
PAGES = "documents/test_pages.py"
"""Each of its tests starts a system of its own, and some take a minute."""
FIRST = ("spark", "browser", PAGES, "integration/lab", "integration/test_demo", "integration/web")
"""What takes longest begins first, so that nobody waits for it at the end."""
MEMORY = Path("/dev/shm")
ROOM = 8 * 2**30
"""Bytes that tests may have lying about at a time, and as much again."""

OWN_ROOT = pytest.StashKey[str]()
"""The folder of root's tests, which others may pass."""

settings.register_profile("without a clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("without a clock")  # how long an example takes depends on who else is busy


def group(path: Path) -> str:
    """Which tests belong together: those of a file at least."""
    place = path.relative_to(HERE)
    shared = None if place.as_posix() in APART else ONE_OF_EACH.get(place.parent.as_posix())
    return shared or place.as_posix()


class Groups(LoadScopeScheduling):  # type: ignore[misc]  # it is not typed
    """Gives whole groups to a process, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        mine = group(HERE.parent / nodeid.partition("::")[0])
        return nodeid if mine == PAGES else mine


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    """Share tests out by our groups; the marks that xdist has for this do nothing with this pytest."""
    return Groups(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C mean what it means on a terminal: a shell that runs us in the background has it ignored, and so would
    every process that a test starts and interrupts. And let every Spark start quickly, and files be in memory."""
    gc.disable()  # until all is collected, which makes hardly anything that could be freed
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for java in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
        os.environ.setdefault(java, SHORT_LIVED)
    if "TMPDIR" not in os.environ and _has_room(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it may have been chosen before
    if os.geteuid() == 0:
        pytest.TempPathFactory.mktemp = _make_enterable  # type: ignore[method-assign]
        if not hasattr(config, "workerinput"):  # pytest's usual folder is closed by each session that begins
            config.stash[OWN_ROOT] = os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.mkdtemp(prefix="stafette-tests-")
            Path(config.stash[OWN_ROOT]).chmod(0o711)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove the folder of root's tests, unless one failed and has left something to look at."""
    if exitstatus == pytest.ExitCode.OK and (folder := session.config.stash.get(OWN_ROOT, None)):
        shutil.rmtree(folder, ignore_errors=True)


_mktemp = pytest.TempPathFactory.mktemp


def _make_enterable(self: pytest.TempPathFactory, basename: str, numbered: bool = True) -> Path:
    """A folder that can be passed: what root's tests start runs as an unprivileged user, who must get to it."""
    path = _mktemp(self, basename, numbered)
    for folder in (path, *path.parents):
        status = folder.stat()
        if status.st_uid == 0 and status.st_mode & 0o777 == 0o700:
            folder.chmod(0o711)
    return path


def _has_room(folder: Path) -> bool:
    """Whether tests can have their files there. Each of a hundred servers makes and removes a thousand, and after so
    many were removed a disk's file system takes twice as long for a new one."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put those that take longest first."""

    def place(item: pytest.Item) -> int:
        mine = group(item.path)
        return next((place for place, first in enumerate(FIRST) if mine.startswith(first)), len(FIRST))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """What thousands of tests and all they import have made lasts to the end: no need to look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    """The PostgreSQL that Stafette brings along."""
    yield from serve(tmp_path_factory.mktemp("postgres"), None)


@pytest.fixture
async def database(databases: Databases) -> str:
    """The URL of an empty, migrated database."""
    await databases.clear()
    return databases.migrated


@pytest.fixture
async def brokers(database: str) -> AsyncIterator[StartBroker]:
    """Starts brokers in this process, each on a free port, over one empty database; returns runtime and URL."""
    async with AsyncExitStack() as stack:

        async def start(**limits: int) -> tuple[Runtime, str]:
            settings = BrokerSettings(database=database, port=0, limits=Limits(**limits))
            runtime, port = await stack.enter_async_context(running(settings))
            return runtime, f"stafette://127.0.0.1:{port}"

        yield start


@pytest.fixture
async def broker(brokers: StartBroker) -> str:
    """The URL of one broker."""
    _, url = await brokers()
    return url


@pytest.fixture
async def connect(broker: str) -> AsyncIterator[Connect]:
    """Connects clients, by name, to the one broker or to a URL, and closes them at the end."""
    async with AsyncExitStack() as stack:

        async def start(name: str, url: str = broker, **options: Any) -> Client:
            return await stack.enter_async_context(await stafette.aio.connect(url, name=name, **options))

        yield start


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark for all tests, on two cores of this machine: it takes seconds to start."""
    from stafette.pipeline import session  # slow to load, and most tests need no Spark

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": session.LOOPBACK,
        "spark.connect.grpc.binding.port": "0",
    }
    started = session.start(master="local[2]", conf=settings)
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def spark_connect(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where commands find a Spark: each would start its own, which takes longer than what they do.

    The first process that asks lends the others the one that it has for itself, until the last of them has ended.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # that of all processes
    address = folder / "spark.address"
    with (folder / "spark.users").open("ab") as users:
        with _locked(folder / "spark.lock"):
            lends = not address.exists()
            if lends:
                address.write_text(_address(request.getfixturevalue("spark")))
            fcntl.flock(users, fcntl.LOCK_SH)
        yield address.read_text()
        if lends:
            with _locked(folder / "spark.lock"):
                fcntl.flock(users, fcntl.LOCK_EX)  # which waits for all who share it
                address.unlink()


def _address(spark: SparkSession) -> str:
    assert spark._jvm is not None
    service = getattr(spark._jvm.org.apache.spark.sql.connect.service, "SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()  # that is how Java sees an object of Scala's
    return f"sc://127.0.0.1:{port}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def no_java(spark_connect: str) -> dict[str, str]:
    """Variables for commands that analyse: in that Spark, and a Java that they start by themselves ends at once."""
    return {"SPARK_REMOTE": spark_connect, "SPARK_SUBMIT_OPTS": "-javaagent:none"}
