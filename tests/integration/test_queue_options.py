"""The database holds the options of a queue as they are described: their names, bounds and defaults."""

from __future__ import annotations

import pytest

from stafette import errors
from stafette.database.clients import Identity
from stafette.database.store import Store
from stafette.model import QUEUE_OPTIONS, QueueOption, QueueOptions

NUMBERS = {name: option for name, option in QUEUE_OPTIONS.items() if option.kind == "number"}
each_number = pytest.mark.parametrize(("name", "option"), NUMBERS.items(), ids=NUMBERS)
CREATE = "SELECT * FROM stafette.create_queue($1, 'jobs', $2)"


@pytest.fixture
async def alice(store: Store) -> Identity:
    return await store.clients.register("alice")


async def test_the_type_has_the_names_in_their_order(store: Store) -> None:
    rows = await store.pool.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = 'stafette.queue_options'::regclass ORDER BY attnum"
    )
    assert [name for [name] in rows] == list(QUEUE_OPTIONS)


async def test_a_queue_without_options_has_the_defaults(store: Store, alice: Identity) -> None:
    queue = await store.queues.create(alice.id, "jobs")
    in_force = {name: False if option.kind == "flag" else option.default for name, option in QUEUE_OPTIONS.items()}
    assert {name: getattr(queue, name) for name in QUEUE_OPTIONS} == in_force
    personal = await store.queues.personal("alice")
    assert {name: getattr(personal, name) for name in QUEUE_OPTIONS} == in_force


@each_number
async def test_the_bounds_are_those_of_the_description(
    store: Store, alice: Identity, name: str, option: QueueOption
) -> None:
    for number, value in enumerate(option.bounds):
        queue = await store.queues.create(alice.id, f"jobs {number}", QueueOptions.from_values({name: value}))
        assert getattr(queue, name) == value
    for value in (option.bounds[0] - 1, option.bounds[1] + 1):
        with pytest.raises(errors.InvalidRequest, match=f"{name} {value} is not between"):
            await store.queues.create(alice.id, "jobs", QueueOptions.from_values({name: value}))


async def test_an_unknown_option_is_refused_in_the_words_of_the_program(store: Store, alice: Identity) -> None:
    unknown = {"max_body": 3, "colour": "red"}
    with pytest.raises(errors.InvalidRequest) as in_python:
        QueueOptions.from_values(unknown)
    with pytest.raises(errors.InvalidRequest) as in_sql:
        await store.pool.fetch(CREATE, alice.id, unknown)
    assert str(in_sql.value) == str(in_python.value)
    assert "its options are dead_letter, exclude_own, " in str(in_sql.value)


@pytest.mark.parametrize("options", ["[]", '"max_body"', "7", "null"])
async def test_options_are_an_object(store: Store, alice: Identity, options: str) -> None:
    with pytest.raises(errors.InvalidRequest, match="options of a queue are a JSON object, for example"):
        await store.pool.fetch("SELECT stafette.create_queue($1, 'jobs', $2::text::jsonb)", alice.id, options)


async def test_what_is_null_is_as_by_default(store: Store, alice: Identity) -> None:
    nothing = dict.fromkeys(QUEUE_OPTIONS)
    await store.pool.fetch(CREATE, alice.id, nothing)
    await store.queues.create(alice.id, "as by default")
    first, second = await store.queues.get("jobs"), await store.queues.get("as by default")
    assert [getattr(first, name) for name in QUEUE_OPTIONS] == [getattr(second, name) for name in QUEUE_OPTIONS]


@pytest.mark.parametrize("options", [{"max_body": "lots"}, {"max_body": 2**40}, {"dead_letter": "\0"}], ids=str)
async def test_a_value_that_is_none_is_the_callers_fault(
    store: Store, alice: Identity, options: dict[str, object]
) -> None:
    with pytest.raises(errors.InvalidRequest, match="the database cannot hold that value"):
        await store.pool.fetch(CREATE, alice.id, options)


async def test_a_queue_is_made_from_sql_without_options_and_comes_as_one_value(store: Store, alice: Identity) -> None:
    """As examples/transactional_send.py does."""
    for _ in range(2):
        made = await store.pool.value("SELECT stafette.create_queue($1, 'orders', exist_ok => true)", alice.id)
        assert (made["queue"]["name"], made["messages"]) == ("orders", 0)
