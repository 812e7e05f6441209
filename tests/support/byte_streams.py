"""A stream of bytes, cut into pieces in several ways."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from stafette.protocol.frames import FrameReader

Cut = Callable[[bytes], Iterable[bytes]]


def whole(stream: bytes) -> list[bytes]:
    return [stream]


def byte_by_byte(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


def in_threes(stream: bytes) -> list[bytes]:
    return [stream[at : at + 3] for at in range(0, len(stream), 3)]


cut_in_any_way = pytest.mark.parametrize("cut", [whole, byte_by_byte, in_threes])


def read(reader: FrameReader, pieces: Iterable[bytes]) -> list[bytes]:
    return [bytes(payload) for piece in pieces for payload in reader.feed(piece)]
