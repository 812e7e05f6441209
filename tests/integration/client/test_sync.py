"""What is particular to the synchronous twin: that it is one, threads, interruption, forks, leases, imports.

Its methods are walked through together with the asynchronous ones in test_methods.py.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import stafette
import stafette.aio
from stafette import errors
from stafette.client.aio import Client as AsyncClient
from tests.support.brokers import StartBroker
from tests.support.waiting import blocking_until, until

Connect = Callable[..., Awaitable[AsyncClient]]
GUARD = 30.0


def public(client: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_")
    }


def test_the_twins_have_the_same_methods() -> None:
    ours, theirs = public(stafette.Client), public(stafette.aio.Client)
    theirs.pop("open")  # a step of connecting
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"lease"}:
        assert ours[name] == theirs[name], name
    assert ours["lease"].parameters == theirs["lease"].parameters
    assert inspect.signature(stafette.connect).parameters == inspect.signature(stafette.aio.connect).parameters
    for name in ours:
        assert inspect.getdoc(getattr(stafette.Client, name)), name


async def test_threads_share_a_client(broker: str) -> None:
    def work() -> None:
        with stafette.connect(broker, name="alice") as alice, ThreadPoolExecutor(8) as threads:
            alice.create_queue("jobs")
            waiting = threads.submit(alice.receive, "@alice", wait=60)
            ids = list(threads.map(lambda number: alice.send("jobs", b"%d" % number)[0], range(100)))
            assert len(set(ids)) == 100
            alice.send("@alice", b"for the one who waits")
            message = waiting.result()
            assert message is not None
            assert message.body == b"for the one who waits"
            assert len(alice.receive_many("jobs", 1000)) == 100

    await asyncio.to_thread(work)


async def test_all_clients_share_one_thread(broker: str) -> None:
    def work() -> None:
        clients = [stafette.connect(broker, name=f"client-{number}") for number in range(3)]
        assert [thread.name for thread in threading.enumerate()].count("stafette") == 1
        for client in clients:
            client.close()
            client.close()
            with pytest.raises(errors.InvalidRequest, match="closed"):
                client.ping()

    await asyncio.to_thread(work)


async def test_the_name_is_free_after_a_with(broker: str) -> None:
    def work() -> None:
        for _ in range(3):
            with stafette.connect(broker, name="alice") as alice:
                assert alice.name == "alice"
                with pytest.raises(errors.AlreadyOnline):
                    stafette.connect(broker, name="alice")

    await asyncio.to_thread(work)


async def test_a_lease_may_be_taken_without_a_with(broker: str) -> None:
    def work() -> None:
        with stafette.connect(broker, name="alice") as alice:
            nothing = alice.lease("@alice")
            assert not nothing
            assert nothing.message is None
            for attempt in (nothing.ack, nothing.nack, lambda: nothing.extend(1)):
                with pytest.raises(errors.InvalidRequest):
                    attempt()
            with nothing as yielded:
                assert yielded is None

            alice.send("@alice", b"work")
            lease = alice.lease("@alice", wait=60)
            assert lease
            assert lease.message is not None
            assert lease.message.body == b"work"
            lease.extend(60)
            lease.nack()
            with pytest.raises(errors.LeaseLost):
                lease.ack()
            with alice.lease("@alice") as yielded:
                assert yielded
            assert alice.peek("@alice") is None

    await asyncio.to_thread(work)


async def test_a_client_that_is_dropped_hangs_up(broker: str) -> None:
    def work() -> None:
        with stafette.connect(broker, name="watcher") as watcher:
            dropped = stafette.connect(broker, name="dropped")
            dropped.ping()
            with pytest.warns(ResourceWarning, match="dropped has not been closed"):
                dropped = gc.collect()  # type: ignore[assignment]
            blocking_until(lambda: watcher.client("dropped").broker is None)

    await asyncio.to_thread(work)


SCRIPT = """
    import os, signal, sys, threading
    import stafette
    url = sys.argv[1]
    """


async def run(script: str, url: str) -> asyncio.subprocess.Process:
    """Start a program that uses the client, with a line to and from it."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-W", "error::ResourceWarning", "-c", textwrap.dedent(SCRIPT + script), url,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


async def test_ctrl_c_ends_a_wait_and_cancels_the_request(brokers: StartBroker, connect: Connect) -> None:
    runtime, url = await brokers()
    process = await run(
        """
    with stafette.connect(url, name="alice") as alice:
        try:
            alice.receive("@alice", wait=600)
        except KeyboardInterrupt:
            print("interrupted", alice.echo(b"alive"), flush=True)
            sys.stdin.readline()
            print(alice.receive("@alice").text)
    """,
        url,
    )
    await until(lambda: runtime.core.waiting)
    async with asyncio.timeout(GUARD):
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"interrupted b'alive'\n"
        [session] = runtime.core.sessions.values()
        await until(lambda: not session.in_flight)  # it may be trying again, and take what comes now
        bob = await connect("bob", url)
        await bob.send("@alice", b"not lost")
        output, complaints = await process.communicate(b"\n")
    assert (output, complaints, process.returncode) == (b"not lost\n", b"", 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
async def test_a_forked_child_connects_anew_and_leaves_the_parent_alone(broker: str) -> None:
    process = await run(
        """
    with stafette.connect(url, name="parent") as parent:
        child = os.fork()
        if not child:
            try:
                parent.ping()
            except stafette.errors.InvalidRequest as error:
                assert "connect again" in str(error)
            else:
                os._exit(1)
            parent.close()
            with stafette.connect(url, name="child") as own:
                own.send("@parent", b"from the child")
                del parent
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        print(parent.receive("@parent").text)
        print([thread.name for thread in threading.enumerate()].count("stafette"))
    """,
        broker,
    )
    async with asyncio.timeout(GUARD):
        output, complaints = await process.communicate()
    assert (output, complaints, process.returncode) == (b"from the child\n1\n", b"", 0)


async def test_a_program_may_end_without_closing(broker: str, connect: Connect) -> None:
    process = await run('kept = stafette.connect(url, name="alice")', broker)
    async with asyncio.timeout(GUARD):
        assert await process.wait() == 0
        watcher = await connect("watcher")

        async def is_offline() -> bool:
            return (await watcher.client("alice")).broker is None

        await until(is_offline)


def test_importing_the_client_imports_little() -> None:
    script = """
        import sys
        import stafette
        assert "asyncio" not in sys.modules and "msgspec" not in sys.modules
        assert set(stafette.__all__) <= set(dir(stafette))
        assert stafette.aio.connect and stafette.errors.QueueNotFound
        for name in stafette.__all__:
            getattr(stafette, name)
        from stafette import *
        assert connect is stafette.connect and Message is stafette.Message
        try:
            stafette.nonsense
        except AttributeError:
            pass
        heavy = {"asyncpg", "pyspark", "fastapi", "starlette", "uvloop", "typer", "pydantic", "rich"}
        heavy |= {"prometheus_client", "numpy", "pyarrow", "stafette.database", "stafette.broker", "stafette.cli"}
        print(*sorted(heavy & set(sys.modules)))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")
