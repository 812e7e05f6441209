"""Frames: however a stream is cut into pieces, the same payloads come out, and nothing is kept that is too large."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stafette.protocol.frames import HEADER_BYTES, FrameReader, FrameTooLarge, frame
from tests.support.byte_streams import Cut, cut_in_any_way, read

LIMIT = 1000
LARGEST_LENGTH = b"\xff\xff\xff\xff"


def read_until_refused(reader: FrameReader, pieces: Iterable[bytes]) -> tuple[list[bytes], int]:
    """What came out before a frame was too large, and the most that was kept on the way."""
    found, most_kept = list[bytes](), 0
    try:
        for piece in pieces:
            found.extend(map(bytes, reader.feed(piece)))
            most_kept = max(most_kept, len(reader._partial_frame))
    except FrameTooLarge:
        return found, max(most_kept, len(reader._partial_frame))
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize(
    ("payload", "framed"),
    [
        (b"", b"\x00\x00\x00\x00"),
        (b"a", b"\x00\x00\x00\x01a"),
        (b"x" * 258, b"\x00\x00\x01\x02" + b"x" * 258),
    ],
)
def test_a_frame_is_four_bytes_of_length_and_the_payload(payload: bytes, framed: bytes) -> None:
    assert frame(payload) == framed
    assert read(FrameReader(LIMIT), [framed]) == [payload]


@cut_in_any_way
@pytest.mark.parametrize("payloads", [[b""], [b"one"], [b"one", b"", b"three"], [b"x" * LIMIT], [b"\x00" * 7] * 50])
def test_payloads_come_out_as_they_went_in(cut: Cut, payloads: list[bytes]) -> None:
    reader = FrameReader(LIMIT)
    assert read(reader, cut(b"".join(map(frame, payloads)))) == payloads
    assert not reader.partial


@cut_in_any_way
@pytest.mark.parametrize("trailing", [b"\x00", b"\x00\x00\x00", b"\x00\x00\x00\x05", b"\x00\x00\x00\x05half"])
def test_the_beginning_of_a_next_frame_is_kept_until_its_end(cut: Cut, trailing: bytes) -> None:
    reader = FrameReader(LIMIT)
    assert read(reader, cut(frame(b"one") + trailing)) == [b"one"]
    assert reader.partial
    rest = frame(b"halfX")[len(trailing) :]
    assert read(reader, cut(rest + frame(b"three"))) == [b"halfX", b"three"]
    assert not reader.partial


@given(st.lists(st.binary(max_size=40)), st.lists(st.integers(1, 30)), st.binary(max_size=3))
def test_any_stream_in_any_pieces(payloads: list[bytes], sizes: list[int], trailing: bytes) -> None:
    stream = b"".join(map(frame, payloads)) + trailing
    reader, found = FrameReader(LIMIT), list[bytes]()
    for size in [*sizes, len(stream)]:
        found += map(bytes, reader.feed(stream[:size]))
        stream = stream[size:]
    assert found == payloads
    assert reader.partial == bool(trailing)


@cut_in_any_way
def test_a_frame_at_the_limit_passes_and_one_byte_more_does_not(cut: Cut) -> None:
    assert read(FrameReader(LIMIT), cut(frame(b"x" * LIMIT))) == [b"x" * LIMIT]
    with pytest.raises(FrameTooLarge, match="1001 bytes exceeds the limit of 1000") as caught:
        read(FrameReader(LIMIT), cut(frame(b"x" * (LIMIT + 1))))
    assert (caught.value.length, caught.value.limit) == (LIMIT + 1, LIMIT)


@cut_in_any_way
def test_what_comes_before_a_frame_that_is_too_large_is_given_out(cut: Cut) -> None:
    stream = frame(b"one") + frame(b"two") + LARGEST_LENGTH + b"trailing"
    found, _ = read_until_refused(FrameReader(LIMIT), cut(stream))
    assert found == [b"one", b"two"]


@cut_in_any_way
@pytest.mark.parametrize("trailing", [b"", b"x" * 5000])
def test_a_huge_length_is_refused_before_anything_is_kept_for_it(cut: Cut, trailing: bytes) -> None:
    _, most_kept = read_until_refused(FrameReader(LIMIT), cut(LARGEST_LENGTH + trailing))
    assert most_kept < HEADER_BYTES


def test_a_length_within_the_limit_costs_only_what_has_come() -> None:
    reader = FrameReader(2**30)
    assert read(reader, [(2**30).to_bytes(HEADER_BYTES, "big") + b"ten bytes!"]) == []
    assert len(reader._partial_frame) == HEADER_BYTES + 10
    assert reader._partial_frame.__alloc__() < 1000


def test_a_new_limit_counts_from_the_next_frame_on() -> None:
    reader = FrameReader(3)
    assert read(reader, [frame(b"abc")]) == [b"abc"]
    reader.limit = 10
    assert read(reader, [frame(b"abcdefghij")]) == [b"abcdefghij"]


def test_what_follows_the_frame_at_which_reading_stops_comes_with_the_next_piece() -> None:
    reader = FrameReader(LIMIT)
    frames = reader.feed(frame(b"first") + frame(b"second") + frame(b"third")[:-1])
    assert next(frames) == b"first"
    frames.close()
    assert reader.partial
    assert list(reader.feed(b"")) == [b"second"]
    assert list(reader.feed(b"d")) == [b"third"]
    assert not reader.partial
