"""Who gives way when there are too many connections, and until when a request must be there."""

from __future__ import annotations

from stafette.web.connections import BYTES_PER_SECOND, REQUEST_SECONDS, Connection, ConnectionLimit, arrival_deadline


class FakeConnection(Connection):
    """One that only notes that it had to go."""

    def __init__(self, *, is_operators: bool = False) -> None:
        super().__init__()
        self._is_operators = is_operators
        self.gone = False

    @property
    def is_operators(self) -> bool:
        return self._is_operators

    def hang_up(self) -> None:
        self.gone = True


def test_the_oldest_stranger_gives_way() -> None:
    limit = ConnectionLimit(3)
    operator, first, second, newcomer = (FakeConnection(is_operators=number == 0) for number in range(4))
    assert all(limit.add(connection) for connection in (operator, first, second))
    assert limit.add(newcomer)
    assert [each.gone for each in (operator, first, second, newcomer)] == [False, True, False, False]
    assert len(limit) == 3


def test_operators_do_not_give_way() -> None:
    limit = ConnectionLimit(2)
    operators = [FakeConnection(is_operators=True) for _ in range(2)]
    assert all(limit.add(connection) for connection in operators)
    assert not limit.add(FakeConnection())
    assert not any(connection.gone for connection in operators)
    limit.remove(operators[0])
    assert limit.add(FakeConnection())


def test_more_bytes_give_more_time() -> None:
    assert arrival_deadline(100.0, 0) == 100.0 + REQUEST_SECONDS
    assert arrival_deadline(100.0, 5 * BYTES_PER_SECOND) == 100.0 + REQUEST_SECONDS + 5
