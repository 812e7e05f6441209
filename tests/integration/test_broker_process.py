"""`stafette broker` as an operator runs it: processes, signals, commands, metrics, and a sentence for each refusal."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import threading
import urllib.request
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import asyncpg
import pytest
from prometheus_client.parser import text_string_to_metric_families

import stafette.aio
from stafette import errors
from stafette.broker import control
from stafette.broker.diagnostics import stacks
from tests.support.broker_processes import Brokers, broker_processes, run
from tests.support.command_line import assert_one_sentence
from tests.support.command_line import stafette as stafette_command
from tests.support.free_ports import free_ports

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"

# Made for these tests and of no use elsewhere; valid for 127.0.0.1 until 2120.
KEY = """-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgH28gM7YAn+DaWPEk
MMWeFd4v5hJu3ZbRMdOYp0y/+UChRANCAAQZ13EFh4gt7gX+J+pfuiOyY3/Vr6aY
3prad/9hN4Wk7MleDORJbMQM6QwBDOcBYqkBfvN6jFJC+cUBd3HYBvuB
-----END PRIVATE KEY-----
"""
CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBYDCCAQWgAwIBAgIBATAKBggqhkjOPQQDAjAQMQ4wDAYDVQQDDAV0ZXN0czAg
Fw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowEDEOMAwGA1UEAwwFdGVz
dHMwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQZ13EFh4gt7gX+J+pfuiOyY3/V
r6aY3prad/9hN4Wk7MleDORJbMQM6QwBDOcBYqkBfvN6jFJC+cUBd3HYBvuBo04w
TDAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3QwDwYDVR0TAQH/BAUwAwEB/zAd
BgNVHQ4EFgQUgApc1fOJl8VYLDlbDlpbHwqD1ngwCgYIKoZIzj0EAwIDSQAwRgIh
APNPOJ1DZD6QFwuUea+LendWwrQUseoZLmqWG0TIlHvnAiEApktTQL4SF01zgP3O
o9fCKbnuSQJNzm5fXP29TrVwb+4=
-----END CERTIFICATE-----
"""


@pytest.fixture
async def processes(database: str, tmp_path: Path) -> AsyncIterator[Brokers]:
    async with broker_processes(database, tmp_path / "data") as brokers:
        yield brokers


@pytest.fixture
def tls(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "key.pem").write_text(KEY)
    (tmp_path / "certificate.pem").write_text(CERTIFICATE)
    for name in ("certificate.pem", "key.pem"):  # a test takes the one for the other
        (tmp_path / name).chmod(0o600)
    return "--tls-certificate", str(tmp_path / "certificate.pem"), "--tls-key", str(tmp_path / "key.pem")


def refused(*arguments: str, exit_code: int) -> str:
    """What a command says that must fail with an exit code and one sentence."""
    done = stafette_command(*arguments)
    assert_one_sentence(done, exit_code, "")
    return done.stderr


async def brokers_on_duty(database: str) -> int:
    connection = await asyncpg.connect(database)
    try:
        return int(await connection.fetchval("SELECT count(*) FROM stafette.brokers"))
    finally:
        await connection.close()


# The process


async def test_a_broker_says_where_it_serves_and_drains_on_sigterm(processes: Brokers, database: str) -> None:
    broker = await processes.start()
    assert re.fullmatch(r"stafette://127\.0\.0\.1:[1-9]\d*", broker.url)
    async with await stafette.aio.connect(broker.url, name="alice") as alice:
        await alice.create_queue("jobs")
        reading = asyncio.create_task(alice.receive("jobs", wait=600))
        await asyncio.sleep(0)  # let it send
        await alice.ping()  # the read is parked, or about to be
        broker.signal(signal.SIGTERM)
        assert await broker.ended() == 0  # and it did not wait for the read
        reading.cancel()
    assert await brokers_on_duty(database) == 0
    assert not list((processes.data / "run").glob("*.sock"))


async def test_workers_share_the_load_and_one_that_dies_is_replaced(processes: Brokers) -> None:
    # Given two workers and clients dealt out to them by the kernel
    broker = await processes.start("--workers", "2")
    first, second = map(int, await broker.says(r"broker \S+/(\d+) serves", times=2))
    async with AsyncExitStack() as stack:
        for number in range(40):
            await stack.enter_async_context(await stafette.aio.connect(broker.url, name=f"client {number}"))
        serving = await processes.status()
        assert serving.keys() == {first, second}
        assert sum(one["clients"] for one in serving.values()) == 40
        assert all(one["clients"] for one in serving.values())

        # When one dies, then its clients go on elsewhere, and another takes its place
        os.kill(first, signal.SIGKILL)
        await broker.says(rf"worker \d \(process ({first})\) was killed by SIGKILL; restarting it")
        third = int((await broker.says(r"broker \S+/(\d+) serves", times=3))[2])
        assert (await processes.status()).keys() == {second, third}

    # And the signal to stop ends all of them
    broker.signal(signal.SIGTERM)
    assert await broker.ended() == 0
    assert len(await broker.says("(has ended)", times=2)) == 2
    for pid in (second, third):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


async def test_workers_do_not_outlive_their_parent(processes: Brokers, database: str) -> None:
    broker = await processes.start("--workers", "2")
    await broker.says(r"broker (\S+) serves", times=2)
    broker.signal(signal.SIGKILL)
    await broker.ended()  # that is, nobody holds its standard error any more
    await broker.says("(has ended)", times=2)
    assert await brokers_on_duty(database) == 0


# Commands for a running broker


async def test_an_operator_can_look_at_all_brokers_and_end_them(processes: Brokers) -> None:
    # Given a broker with a parked read and, beside its socket, one that a killed broker left behind
    broker, other = await asyncio.gather(processes.start(), processes.start())
    left = control.folder_of(processes.data) / "broker-1.sock"
    left.unlink(missing_ok=True)  # it may have been left in fact, by this test in an earlier session
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(left))
    async with await stafette.aio.connect(broker.url, name="alice") as alice:
        await alice.create_queue("jobs")
        reading = asyncio.create_task(alice.receive("jobs", wait=600))
        await asyncio.sleep(0)  # let it send
        await alice.ping()

        # Then its commands show that
        figures = {one["pid"]: one for one in map(json.loads, (await processes.ctl("status")).splitlines())}[broker.pid]
        assert figures["url"] == broker.url
        assert (figures["clients"], figures["parked"] + figures["in_flight"]) == (1, 1)  # it may just be trying again
        memory = [json.loads(line) for line in (await processes.ctl("memory", "--json")).splitlines()]
        mine = next(one for one in memory if one["pid"] == broker.pid)
        assert mine["resident_bytes"] > 2**20
        assert (mine["sessions"], mine["pending"]) == (1, 1)
        shown = await processes.ctl("stacks")
        assert shown.count("Thread MainThread") == 2
        assert "in _notify\n" in shown  # deep down in a task
        socket_file = control.folder_of(processes.data) / f"broker-{broker.pid}.sock"
        assert (socket_file.stat().st_mode & 0o777, socket_file.parent.stat().st_mode & 0o777) == (0o600, 0o700)

        # And shutdown drains all of them, and returns when they are gone
        done = await run("broker", "ctl", "shutdown", "--data", str(processes.data))
        assert done.returncode == 0, done.stderr
        reading.cancel()
    assert [await broker.ended(), await other.ended()] == [0, 0]
    done = await asyncio.to_thread(stafette_command, "broker", "ctl", "status", "--data", str(processes.data))
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert "no broker with the data folder" in done.stderr


async def test_stacks_are_shown_while_the_event_loop_is_stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "COMMAND_SECONDS", 0.1)
    stuck, released = threading.Event(), threading.Event()

    def get_stuck() -> None:
        stuck.set()
        assert released.wait(60)

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        commands = control.Control(on_loop={"status": dict}, anywhere={"stacks": partial(stacks, loop)}, stop=loop.stop)
        with commands.serving(tmp_path):
            loop.call_soon(get_stuck)
            await asyncio.sleep(0)

    broker = threading.Thread(target=asyncio.run, args=(serve(),), name="broker")
    broker.start()
    assert await asyncio.to_thread(stuck.wait, 60)
    [seen] = await asyncio.to_thread(control.ask_all, tmp_path, "stacks")
    [failed] = await asyncio.to_thread(control.ask_all, tmp_path, "status")
    released.set()
    await asyncio.to_thread(broker.join)
    assert "in get_stuck" in str(seen)
    assert isinstance(failed, errors.InternalError)
    assert "the event loop is stuck" in str(failed)


async def test_shutdown_is_answered_before_it_begins(tmp_path: Path) -> None:
    answers: asyncio.Queue[bytes] = asyncio.Queue()

    def stop() -> None:  # the process could end any moment now, and the thread that answers with it
        try:
            answers.put_nowait(operator.recv(100, socket.MSG_DONTWAIT))
        except BlockingIOError:
            answers.put_nowait(b"nothing yet")

    commands = control.Control(on_loop={}, anywhere={}, stop=stop)
    with commands.serving(tmp_path):
        [path] = control.folder_of(tmp_path).glob("*.sock")
        for _ in range(1000):  # that it comes first by chance is possible, but not a thousand times
            with socket.socket(socket.AF_UNIX) as operator:
                operator.connect(str(path))
                operator.sendall(b"shutdown\n")
                assert await answers.get() == b'{"ok":"draining"}\n'
            commands._shutdown_connections.pop().close()  # as the kernel would at the end of the process


async def test_a_data_folder_too_deep_for_a_socket(database: str, tmp_path: Path) -> None:
    async with broker_processes(database, tmp_path / ("deep" * 30)) as processes:
        broker = await processes.start()
        assert (await processes.status()).keys() == {broker.pid}
        done = await run("broker", "ctl", "shutdown", "--data", str(processes.data))
        assert done.returncode == 0, done.stderr
        assert await broker.ended() == 0
    folder = control.folder_of(tmp_path / ("deep" * 30))
    assert tmp_path not in folder.parents
    folder.rmdir()  # the socket is gone


async def test_a_broker_that_cannot_offer_commands_serves_all_the_same(database: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    in_the_way = control.folder_of(tmp_path / "data")
    in_the_way.parent.mkdir(mode=0o700, exist_ok=True)
    in_the_way.write_text("in the way")
    async with broker_processes(database, tmp_path / "data") as processes:
        broker = await processes.start()
        await broker.says("(will not find this broker)")
        async with await stafette.aio.connect(broker.url, name="alice") as alice:
            await alice.ping()
    in_the_way.unlink()


# Metrics


def scrape(address: str) -> dict[tuple[str, ...], float]:
    """The value of each sample, by its name and labels."""
    with urllib.request.urlopen(address) as answer:
        families = text_string_to_metric_families(answer.read().decode())
    return {
        (sample.name, *(sample.labels[label] for label in sorted(sample.labels))): sample.value
        for family in families
        for sample in family.samples
    }


async def test_prometheus_finds_what_happened(processes: Brokers) -> None:
    broker = await processes.start("--metrics-port", "0")
    [address] = await broker.says(r"(http://127\.0\.0\.1:\d+/metrics)")
    async with await stafette.aio.connect(broker.url, name="alice") as alice:
        await alice.create_queue("jobs")
        for _ in range(3):
            await alice.send("jobs", b"x" * 1000)
        with pytest.raises(errors.QueueNotFound):
            await alice.send("nowhere", b"")
        await alice.receive("jobs")
        await alice.ping()
        reading = asyncio.create_task(alice.receive("@alice", wait=600))
        while (samples := await asyncio.to_thread(scrape, address))["stafette_reads_parked",] < 1:
            pass
        reading.cancel()

    assert all(name.startswith("stafette_") for name, *_ in samples)
    assert samples["stafette_clients_connected",] == 1
    assert samples["stafette_requests_in_flight",] <= 1  # the read may just be trying again
    assert samples["stafette_requests_total", "Send", "ok"] == 3
    assert samples["stafette_requests_total", "Send", "caller"] == 1
    assert samples["stafette_requests_total", "Receive", "ok"] == 1  # the parked one has no answer yet
    assert samples["stafette_requests_total", "Echo", "ok"] == 1
    assert samples["stafette_batches_total",] == samples["stafette_batch_requests_count",] >= 7
    assert samples["stafette_batch_requests_sum",] >= samples["stafette_batches_total",]
    assert samples["stafette_queue_seconds_count",] == 7  # a queue, four sends, two receives
    assert samples["stafette_database_seconds_bucket", "+Inf"] == samples["stafette_batches_total",]
    assert min(samples["stafette_database_seconds_sum",], samples["stafette_queue_seconds_sum",]) > 0
    assert samples["stafette_received_bytes_total",] > 3000
    assert samples["stafette_sent_bytes_total",] > 1000
    assert samples["stafette_upkeep_rounds_total", "ok", "Heartbeat"] >= 1
    assert samples["stafette_uptime_seconds",] > 0


async def test_each_worker_has_its_own_metrics_port(processes: Brokers) -> None:
    ports = free_ports(2)
    broker = await processes.start("--workers", "2", "--metrics-port", str(ports[0]))
    shown = await broker.says(r"http://127\.0\.0\.1:(\d+)/metrics", times=2)
    assert sorted(map(int, shown)) == list(ports)


# Refusals


async def test_a_port_that_is_taken(processes: Brokers, database: str, tmp_path: Path) -> None:
    single, workers = await asyncio.gather(processes.start(), processes.start("--workers", "2"))
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        taken = [(single.port, "2"), (workers.port, "1"), (workers.port, "2"), (stranger.getsockname()[1], "1")]
        attempts = [
            run("broker", "--database", database, "--data", str(tmp_path), "--port", str(port), "--workers", count)
            for port, count in taken
        ]
        for done in await asyncio.gather(*attempts):
            assert (done.returncode, done.stdout) == (3, ""), done.stderr
            sentence = r"stafette: port \d+ of 127.0.0.1 is in use by another program; [^\n]* --port\n"
            assert re.fullmatch(sentence, done.stderr)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_no_database_and_the_wrong_one(workers: str, new_database: str, tmp_path: Path) -> None:
    attempts = [
        run("broker", "--database", url, "--data", str(tmp_path), "--port", "0", "--workers", workers)
        for url in (NOWHERE, new_database, "mysql://x")
    ]
    says = ["cannot reach the database", "no schema for Stafette; run `stafette db migrate`", "is not a database URL"]
    for done, exit_code, expected in zip(await asyncio.gather(*attempts), (3, 1, 1), says, strict=True):
        assert_one_sentence(done, exit_code, expected)


def test_no_embedded_database(tmp_path: Path) -> None:
    assert "start it with `stafette db start`" in refused("broker", "--data", str(tmp_path), exit_code=3)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--host", "0.0.0.0"), "0.0.0.0 can be reached from other machines; give --tls-certificate and --tls-key,"),
        (("--host", "::"), ":: can be reached from other machines"),
        (("--host", "broker.example"), "broker.example can be reached from other machines"),
        (("--host", ""), "can be reached from other machines"),
        (("--tls-certificate", "certificate.pem"), "TLS needs both a certificate and its key"),
        (("--tls-key", "key.pem"), "TLS needs both a certificate and its key"),
        (("--tls-certificate", "none.pem", "--tls-key", "key.pem"), "cannot use the certificate none.pem"),
        (("--tls-certificate", "key.pem", "--tls-key", "certificate.pem"), "cannot use the certificate key.pem"),
        (("--host", "no such host", "--insecure"), "there is no address 'no such host' to listen on"),
    ],
)
@pytest.mark.usefixtures("tls")
def test_unsafe_and_impossible_settings(
    arguments: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert says in refused("broker", "--database", NOWHERE, "--data", ".", *arguments, exit_code=1)


async def test_other_machines_need_tls_and_a_secret(processes: Brokers, tls: tuple[str, ...]) -> None:
    broker = await processes.start("--host", "0.0.0.0", *tls)
    assert broker.url == f"stafettes://0.0.0.0:{broker.port}"
    safe = f"stafettes://127.0.0.1:{broker.port}?ca={tls[1]}"
    with pytest.raises(errors.NotAuthenticated, match="requires a secret"):
        await stafette.aio.connect(safe, name="alice")
    async with await stafette.aio.connect(safe, name="alice", secret="open sesame") as alice:
        await alice.ping()
    with pytest.raises(errors.Unavailable):  # nothing is said in clear
        await stafette.aio.connect(f"stafette://127.0.0.1:{broker.port}", name="alice", secret="open sesame", timeout=9)


async def test_insecure_is_an_explicit_choice(processes: Brokers) -> None:
    broker = await processes.start("--host", "0.0.0.0", "--insecure")
    async with await stafette.aio.connect(f"stafette://127.0.0.1:{broker.port}", name="alice") as alice:
        await alice.ping()
