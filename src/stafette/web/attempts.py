"""What strangers try, counted by IP address: before it is looked at, and in bounded memory."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque

WINDOW_SECONDS = 60.0
MOST_ADDRESSES = 1_000
"""Addresses whose attempts are remembered; beyond, those are forgotten that have not tried for longest."""
IPV6_PREFIX = 64
"""What a single customer of a provider has is one address to us."""


class Attempts:
    """How often each address tried within the last minute, up to `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def count(self, address: str, now: float) -> int:
        """Count an attempt; returns its number within the last minute, or one more than `most` from there on.

        What is beyond the limit does not count, or a program that repeats itself would never be let in again.
        """
        times = self._times.setdefault(_prefix(address), deque(maxlen=self._most))
        self._times.move_to_end(_prefix(address))
        if len(self._times) > MOST_ADDRESSES:
            self._times.popitem(last=False)
        while times and now - times[0] >= WINDOW_SECONDS:
            times.popleft()
        if len(times) == self._most:
            return self._most + 1
        times.append(now)
        return len(times)

    def forgive(self, address: str) -> None:
        """Take back the last attempt: it was right."""
        times = self._times.get(_prefix(address))
        if times:
            times.pop()

    def __len__(self) -> int:
        return len(self._times)


def _prefix(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_PREFIX), strict=False))
