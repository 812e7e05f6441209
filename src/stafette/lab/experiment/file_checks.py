"""From the tables of a file to an experiment that can be run, or to all its problems.

The models check each value alone. Here the behaviours check their parameters, and values are checked against one
another. A `lookup` finds the class of a behaviour; without one, what depends on behaviours is not checked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

from stafette.errors import StafetteError
from stafette.lab.experiment.distribution import Fixed
from stafette.lab.experiment.file_problems import Problem, find_problems, format_keys, format_value, invalid_value
from stafette.lab.experiment.file_tables import GROUP_KEYS, MOST_QUEUES, Experiment, Preload, known_keys
from stafette.lab.experiment.toml_lines import Keys

if TYPE_CHECKING:
    from stafette.lab.behaviours.behaviour import Behaviour

Lookup = Callable[[str], "type[Behaviour]"]


def lookup_in(folder: Path | None) -> Lookup:
    """A lookup for built-in behaviours and those in a folder, if there is one, which it imports once."""
    from stafette.lab.behaviours import find  # imports the client, which models do not need

    @functools.cache
    def lookup(name: str) -> type[Behaviour]:
        return find(name, folder)

    return lookup


def resolve(file: Mapping[str, Any], lookup: Lookup | None) -> tuple[Experiment | None, list[Problem]]:
    """The experiment that a file's tables describe, or None, and the problems."""
    tables, problems = _fold(file)
    behaviours: dict[str, _GroupBehaviour] = {}
    for name, group in _groups(tables):
        if lookup is not None and isinstance(group.get("behaviour"), str):
            outcome = _check_group(name, group, lookup)
            if isinstance(outcome, _GroupBehaviour):
                behaviours[name] = outcome
            else:
                problems += outcome
    try:
        experiment = Experiment.model_validate(tables)
    except pydantic.ValidationError as error:
        return None, problems + find_problems(error, tables, (), known_keys)
    problems += _contradictions(experiment, file)
    problems += _contradictions_of_behaviours(experiment, behaviours)
    return (None if problems else experiment), problems


def unfold(experiment: Experiment) -> dict[str, Any]:
    """The tables of a file that describes this experiment."""
    tables: dict[str, Any] = experiment.model_dump(mode="json", exclude_none=True)
    for name, group in tables["clients"].items():
        parameters = group.pop("parameters")
        if "rate" not in group:
            del group["arrivals"]  # the default, which a file without a rate must not set
        tables["clients"][name] = group | parameters
    return tables


def _fold(file: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The file's tables in the shape of the models: a behaviour's keys are under `parameters`."""
    tables = dict(file)
    problems: list[Problem] = []
    if isinstance(clients := tables.get("clients"), Mapping):
        tables["clients"] = {
            name: _fold_group(group, ("clients", name), problems) if isinstance(group, Mapping) else group
            for name, group in clients.items()
        }
    return tables, problems


def _fold_group(group: Mapping[str, Any], keys: Keys, problems: list[Problem]) -> dict[str, Any]:
    folded = {key: value for key, value in group.items() if key in GROUP_KEYS}
    parameters = {key: value for key, value in group.items() if key not in GROUP_KEYS}
    if isinstance(queues := parameters.get("queues"), Mapping):
        names = _queue_names(queues)
        if names is None:
            requirement = (
                f"queues are a list of names, or {{ first = 1, last = 18 }} with 1 ≤ first ≤ last ≤ {MOST_QUEUES}"
            )
            problems.append(invalid_value((*keys, "queues"), queues, requirement))
            del parameters["queues"]
        else:
            parameters["queues"] = names
    return folded | {"parameters": parameters}


def _queue_names(span: Mapping[str, Any]) -> list[str] | None:
    if set(span) != {"first", "last"} or any(type(end) is not int for end in span.values()):
        return None
    first, last = span["first"], span["last"]
    return [f"q-{number}" for number in range(first, last + 1)] if 1 <= first <= last <= MOST_QUEUES else None


def _groups(tables: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    clients = tables.get("clients")
    if isinstance(clients, Mapping):
        yield from ((name, group) for name, group in clients.items() if isinstance(group, Mapping))


class _GroupBehaviour:
    """A group's behaviour, and its parameters as the behaviour understands them."""

    def __init__(self, behaviour: type[Behaviour], parameters: pydantic.BaseModel) -> None:
        self.behaviour = behaviour
        self.parameters = parameters


def _check_group(name: str, group: Mapping[str, Any], lookup: Lookup) -> _GroupBehaviour | list[Problem]:
    keys = ("clients", name)
    try:
        behaviour = lookup(group["behaviour"])
    except StafetteError as error:
        return [Problem((*keys, "behaviour"), error.sentence)]
    parameters = group["parameters"]
    try:
        return _GroupBehaviour(behaviour, behaviour.Parameters.model_validate(parameters))
    except pydantic.ValidationError as error:
        return find_problems(error, parameters, keys, lambda table: _keys_in(behaviour, table[len(keys) :]))


def group_keys(behaviour: type[Behaviour]) -> tuple[str, ...]:
    """The keys that a group of this behaviour may have."""
    return (*GROUP_KEYS, *behaviour.Parameters.model_fields)


def _keys_in(behaviour: type[Behaviour], table: Keys) -> tuple[str, ...]:
    """The keys of a group, or of a table in it that is a model."""
    if not table:
        return group_keys(behaviour)
    field = behaviour.Parameters.model_fields.get(str(table[0])) if len(table) == 1 else None
    kind = field.annotation if field else None
    return tuple(kind.model_fields) if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel) else ()


def _contradictions(experiment: Experiment, file: Mapping[str, Any]) -> Iterator[Problem]:
    """Values that contradict one another."""
    if not any(group.count for group in experiment.clients.values()):
        yield Problem(("clients",), "there are no clients; at least one group must have a count of 1 or more")
    if experiment.preload.messages and not experiment.preload.queues:
        requirement = "preload.queues is 0; messages need a queue to be in"
        yield invalid_value(("preload", "messages"), experiment.preload.messages, requirement)
    for name, group in experiment.clients.items():
        keys = ("clients", name)
        if group.rate is None and "arrivals" in file["clients"][name]:
            requirement = f"that needs an open loop; set {format_keys(keys)}.rate too"
            yield invalid_value((*keys, "arrivals"), group.arrivals, requirement)
        if group.rate is not None and group.think_time != Fixed(fixed=0):
            reason = f"{format_keys(keys)} has a think_time and a rate; an open loop has no think time, so set one"
            yield Problem((*keys, "think_time"), reason)
    yield from _contradictions_of_faults(experiment)


def _contradictions_of_faults(experiment: Experiment) -> Iterator[Problem]:
    brokers = experiment.system.brokers
    processes = [f"broker-{number}" for number in range(1, brokers + 1)]
    choices = [f"broker-1 … broker-{brokers}" if brokers > 1 else "broker-1"] if brokers else []
    if "://" not in experiment.system.database:  # we cannot pause an external database
        processes.append("database")
        choices.append("database")
    for position, fault in enumerate(experiment.faults):
        if fault.pause not in processes:
            requirement = f"it must be {' or '.join(choices)}" if choices else "nothing here can be paused"
            yield invalid_value(("faults", position, "pause"), fault.pause, requirement)
        end, load = fault.at + fault.seconds, experiment.run.seconds
        if end > load:
            requirement = f"the pause would last until {end:g} s after the start, but the load ends after {load:g} s"
            yield invalid_value(("faults", position, "at"), fault.at, requirement)


def _contradictions_of_behaviours(experiment: Experiment, groups: Mapping[str, _GroupBehaviour]) -> Iterator[Problem]:
    """What groups need and the rest of the experiment does not have."""
    queue_count, counts = experiment.preload.queues, {name: group.count for name, group in experiment.clients.items()}
    indirect = [name for name in groups if not groups[name].behaviour.direct and counts[name]]
    if not experiment.system.brokers and indirect:
        requirement = f"the clients of [clients.{indirect[0]}] need a broker; set it to at least 1"
        yield invalid_value(("system", "brokers"), 0, requirement)
    for name, group in groups.items():
        keys = ("clients", name)
        if counts[name]:
            yield from group.behaviour.problems(group.parameters, name, counts, _queue_names_up_to(queue_count))
        names = getattr(group.parameters, "queues", None) or ()
        missing = [name for name in names if not _is_created(name, queue_count)]
        if queue_count and missing:
            requirement = f"but preload.queues creates only q-1 … q-{queue_count}"
            reason = f"{format_keys(keys)}.queues names {format_value(missing[0])}, {requirement}"
            yield Problem((*keys, "queues"), reason)


@functools.lru_cache(maxsize=1)
def _queue_names_up_to(queues: int) -> tuple[str, ...]:
    """The queues that are created; cached for many groups and points."""
    return tuple(Preload(queues=queues).names)


def _is_created(queue: str, queues: int) -> bool:
    """Whether a name is one of q-1 … q-N, without a list of them."""
    number = queue.removeprefix("q-")
    return number.isdecimal() and queue == f"q-{int(number)}" and 1 <= int(number) <= queues
