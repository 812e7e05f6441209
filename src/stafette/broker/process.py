"""A broker as a process: it serves until a signal, a command or the end of its parent stops it, then drains."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from stafette.broker import diagnostics
from stafette.broker.control import Control
from stafette.broker.prometheus import HOST, serve_metrics
from stafette.broker.runtime import Runtime
from stafette.broker.server import BrokerSettings, running

log = logging.getLogger(__name__)


async def serve(
    settings: BrokerSettings,
    *,
    listening: Sequence[socket.socket] | None = None,
    lifeline: socket.socket | None = None,
    worker: int = 0,
    started: Callable[[int], None],
) -> None:
    """Serve until told to stop; `started` is called with the port. A worker's lifeline closes when its parent ends."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if lifeline is not None:
        loop.add_reader(lifeline, _on_parent_end, lifeline, stop)
    with ExitStack() as until_exit:  # an operator may want to look at a broker that does not finish draining
        async with running(settings, listening) as (runtime, port):
            runtime.stop = stop.set
            if settings.metrics_port is not None:
                requested_port = settings.metrics_port and settings.metrics_port + worker
                metrics_port = until_exit.enter_context(serve_metrics(runtime, requested_port))
                log.info("broker %s serves metrics on http://%s:%d/metrics", runtime.name, HOST, metrics_port)
            if settings.data is not None:
                until_exit.enter_context(_control(runtime, settings.url(port), stop).serving(settings.data))
            log.info("broker %s serves %s", runtime.name, settings.url(port))
            started(port)
            await stop.wait()
            log.info("broker %s drains", runtime.name)
        log.info("broker %s has ended", runtime.name)


def _on_parent_end(lifeline: socket.socket, stop: asyncio.Event) -> None:
    asyncio.get_running_loop().remove_reader(lifeline)  # else it would be called again and again
    stop.set()


def _control(runtime: Runtime, url: str, stop: asyncio.Event) -> Control:
    return Control(
        on_loop={"status": partial(diagnostics.status, runtime, url), "memory": partial(diagnostics.memory, runtime)},
        anywhere={"stacks": partial(diagnostics.stacks, asyncio.get_running_loop())},
        stop=stop.set,
    )
