"""From the tables of a file to an experiment that can be run, or everything that stands in the way.

The models check each value alone. Here the behaviours check their parameters, and values are held against one another.
A `lookup` finds the class of a behaviour; without one, what depends on behaviours goes unchecked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

from stafette.errors import StafetteError
from stafette.lab.experiment.distribution import Fixed
from stafette.lab.experiment.file_problems import Problem, dotted, out_of_place, shown, worded
from stafette.lab.experiment.file_tables import GROUP_KEYS, MOST_QUEUES, Experiment, Preload, known_keys
from stafette.lab.experiment.toml_lines import Keys

if TYPE_CHECKING:
    from stafette.lab.behaviours.behaviour import Behaviour

Lookup = Callable[[str], "type[Behaviour]"]


def lookup_in(folder: Path) -> Lookup:
    """Finds built-in behaviours, and one's own in a folder, which are imported once."""
    from stafette.lab.behaviours import find  # behaviours bring the client with them; models alone do not need it

    @functools.cache
    def lookup(name: str) -> type[Behaviour]:
        return find(name, folder)

    return lookup


def resolve(file: Mapping[str, Any], lookup: Lookup | None) -> tuple[Experiment | None, list[Problem]]:
    """Make the experiment that a file's tables describe; None when there are problems."""
    tables, problems = _folded(file)
    behaviours: dict[str, _Checked] = {}
    for name, group in _groups(tables):
        if lookup is not None and isinstance(group.get("behaviour"), str):
            checked = _checked(name, group, lookup)
            problems += checked if isinstance(checked, list) else []
            if isinstance(checked, _Checked):
                behaviours[name] = checked
    try:
        experiment = Experiment.model_validate(tables)
    except pydantic.ValidationError as error:
        return None, problems + worded(error, tables, (), known_keys)
    problems += _contradictions(experiment, file)
    problems += _contradictions_of_behaviours(experiment, behaviours)
    return (None if problems else experiment), problems


def unfolded(experiment: Experiment) -> dict[str, Any]:
    """The tables of a file that describes this experiment."""
    tables: dict[str, Any] = experiment.model_dump(mode="json", exclude_none=True)
    for name, group in tables["clients"].items():
        parameters = group.pop("parameters")
        if "rate" not in group:
            del group["arrivals"]  # a default, which a file without a rate may not say
        tables["clients"][name] = group | parameters
    return tables


def _folded(file: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """The file's tables in the shape of the models: each group's other keys under `parameters`."""
    tables = dict(file)
    problems: list[Problem] = []
    if isinstance(clients := tables.get("clients"), Mapping):
        tables["clients"] = {
            name: _folded_group(group, ("clients", name), problems) if isinstance(group, Mapping) else group
            for name, group in clients.items()
        }
    return tables, problems


def _folded_group(group: Mapping[str, Any], keys: Keys, problems: list[Problem]) -> dict[str, Any]:
    own = {key: value for key, value in group.items() if key in GROUP_KEYS}
    parameters = {key: value for key, value in group.items() if key not in GROUP_KEYS}
    if isinstance(queues := parameters.get("queues"), Mapping):
        names = _queue_names(queues)
        if names is None:
            must = f"queues are a list of names, or {{ first = 1, last = 18 }} with 1 ≤ first ≤ last ≤ {MOST_QUEUES}"
            problems.append(out_of_place((*keys, "queues"), queues, must))
            del parameters["queues"]
        else:
            parameters["queues"] = names
    return own | {"parameters": parameters}


def _queue_names(span: Mapping[str, Any]) -> list[str] | None:
    if set(span) != {"first", "last"} or any(type(end) is not int for end in span.values()):
        return None
    first, last = span["first"], span["last"]
    return [f"q-{number}" for number in range(first, last + 1)] if 1 <= first <= last <= MOST_QUEUES else None


def _groups(tables: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    clients = tables.get("clients")
    if isinstance(clients, Mapping):
        yield from ((name, group) for name, group in clients.items() if isinstance(group, Mapping))


class _Checked:
    """A group's behaviour, and its parameters as the behaviour understands them."""

    def __init__(self, behaviour: type[Behaviour], parameters: pydantic.BaseModel) -> None:
        self.behaviour = behaviour
        self.parameters = parameters


def _checked(name: str, group: Mapping[str, Any], lookup: Lookup) -> _Checked | list[Problem]:
    keys = ("clients", name)
    try:
        behaviour = lookup(group["behaviour"])
    except StafetteError as error:
        return [Problem((*keys, "behaviour"), error.sentence)]
    parameters = group["parameters"]
    try:
        return _Checked(behaviour, behaviour.Parameters.model_validate(parameters))
    except pydantic.ValidationError as error:
        return worded(error, parameters, keys, lambda table: _keys_in(behaviour, table[len(keys) :]))


def group_keys(behaviour: type[Behaviour]) -> tuple[str, ...]:
    """The keys that a group of this behaviour may have."""
    return (*GROUP_KEYS, *behaviour.Parameters.model_fields)


def _keys_in(behaviour: type[Behaviour], table: Keys) -> tuple[str, ...]:
    """The keys of a group, or of a table in it that is plainly a model."""
    if not table:
        return group_keys(behaviour)
    field = behaviour.Parameters.model_fields.get(str(table[0])) if len(table) == 1 else None
    kind = field.annotation if field else None
    return tuple(kind.model_fields) if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel) else ()


def _contradictions(experiment: Experiment, file: Mapping[str, Any]) -> Iterator[Problem]:
    """Values that do not fit one another."""
    if not any(group.count for group in experiment.clients.values()):
        yield Problem(("clients",), "there are no clients; at least one group must have a count of 1 or more")
    if experiment.preload.messages and not experiment.preload.queues:
        must = "preload.queues is 0; messages need a queue to be in"
        yield out_of_place(("preload", "messages"), experiment.preload.messages, must)
    for name, group in experiment.clients.items():
        keys = ("clients", name)
        if group.rate is None and "arrivals" in file["clients"][name]:
            must = f"that needs an open loop; set {dotted(keys)}.rate too"
            yield out_of_place((*keys, "arrivals"), group.arrivals, must)
        if group.rate is not None and group.think_time != Fixed(fixed=0):
            must = "an open loop, which rate makes it, has no think time; set one of the two"
            yield Problem((*keys, "think_time"), f"{dotted(keys)}.think_time stands beside a rate; {must}")
    yield from _contradictions_of_faults(experiment)


def _contradictions_of_faults(experiment: Experiment) -> Iterator[Problem]:
    brokers = experiment.system.brokers
    processes = [f"broker-{number}" for number in range(1, brokers + 1)]
    choices = [f"broker-1 … broker-{brokers}" if brokers > 1 else "broker-1"] if brokers else []
    if "://" not in experiment.system.database:  # another's database is not ours to stop
        processes.append("database")
        choices.append("database")
    for place, fault in enumerate(experiment.faults):
        if fault.pause not in processes:
            must = f"it must be {' or '.join(choices)}" if choices else "nothing here can be paused"
            yield out_of_place(("faults", place, "pause"), fault.pause, must)
        end, load = fault.at + fault.seconds, experiment.run.seconds
        if end > load:
            must = f"the pause would last until {end:g} s after the start, but the load ends after {load:g} s"
            yield out_of_place(("faults", place, "at"), fault.at, must)


def _contradictions_of_behaviours(experiment: Experiment, checked: Mapping[str, _Checked]) -> Iterator[Problem]:
    """What groups need of the rest."""
    made, counts = experiment.preload.queues, {name: group.count for name, group in experiment.clients.items()}
    indirect = [name for name in checked if not checked[name].behaviour.direct and counts[name]]
    if not experiment.system.brokers and indirect:
        must = f"the clients of [clients.{indirect[0]}] need a broker; set it to at least 1"
        yield out_of_place(("system", "brokers"), 0, must)
    for name, group in checked.items():
        keys = ("clients", name)
        if counts[name]:
            yield from group.behaviour.problems(group.parameters, name, counts, _names(made))
        absent = [queue for queue in getattr(group.parameters, "queues", None) or () if not _is_made(queue, made)]
        if made and absent:
            reason = f"{dotted(keys)}.queues names {shown(absent[0])}, but preload.queues makes q-1 … q-{made} only"
            yield Problem((*keys, "queues"), reason)


@functools.lru_cache(maxsize=1)
def _names(queues: int) -> tuple[str, ...]:
    """The queues that are made; many groups and points ask for them."""
    return tuple(Preload(queues=queues).names)


def _is_made(queue: str, queues: int) -> bool:
    """Whether a name is one of q-1 … q-N, without making them all."""
    number = queue.removeprefix("q-")
    return number.isdecimal() and queue == f"q-{int(number)}" and 1 <= int(number) <= queues
