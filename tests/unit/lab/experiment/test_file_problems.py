"""What is wrong with a file: one sentence for each cause, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from stafette.lab.experiment.experiment_file import InvalidExperiment, parse
from stafette.lab.experiment.thresholds import METRICS

SMALLEST = '[clients.alice]\nbehaviour = "alice"\ncount = 1\n'
OWN = """\
import pydantic
from stafette.lab.behaviours import Behaviour, Parameters

class Shares(pydantic.BaseModel, extra="forbid"):
    left: int = 1

class MyParameters(Parameters):
    speed: int | str | None = None
    names: tuple[int, int] | None = None
    even: bool = True
    shares: Shares = Shares()

class Mine(Behaviour):
    Parameters = MyParameters
"""


def problems(text: str, folder: Path = Path()) -> list[str]:
    with pytest.raises(InvalidExperiment) as caught:
        parse(text, folder=folder, name="x")
    return str(caught.value).split("\n")


A_DISTRIBUTION = "it must be a number or a table such as { uniform = [100, 2000] }"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the text as such
        ("[run\n", "line 1: not valid TOML: expected ']' at the end of a table declaration"),
        ("a = 1\n\nb = ", "line 3: not valid TOML: invalid value"),
        ("a = 1\na = 2\n", "line 2: not valid TOML: cannot overwrite a value"),
        ("name = 'My try'", "line 1: name is \"My try\"; it must consist of at most 60 of a-z, 0-9 and -"),
        ("seed = nan", "line 1: seed is nan; it must be a finite number"),
        ("title = 2020-01-01", "line 1: title is 2020-01-01; it must not be a date or time"),
        # keys
        ("nome = 1", "line 1: there is no key 'nome' in the file; did you mean 'name'?"),
        ("[run]\nduraton = 3.0", "line 2: there is no key 'duraton' in [run]; did you mean 'duration'?"),
        ("[run]\nqqq = 3",
         "line 2: there is no key 'qqq' in [run]; there are warm_up, duration, cool_down, repetitions"),
        ("[clients.bob]\nbehaviour = 'bob'", "line 1: there is no 'count' in [clients.bob]; it must be given"),
        ("[clients.bob]\nbehaviour = 'bob'\ncount = 1\nsize = 3\n",
         "line 4: there is no key 'size' in [clients.bob]; there are behaviour, count, think_time, rate, arrivals,"
         " ramp, queues, wait, retry_delay, batch"),
        ("[clients.bob]\nbehaviour = 'bob'\ncount = 1\nparameters = {}",
         "line 4: there is no key 'parameters' in [clients.bob]; there are behaviour, count, think_time, rate,"
         " arrivals, ramp, queues, wait, retry_delay, batch"),
        ("[clients.'Big Bob']\nbehaviour = 'bob'\ncount = 1",
         "line 1: 'Big Bob' cannot be the name of a group; use at most 60 of a-z, 0-9, _ and -"),
        ("[design]\nkind = 'sweep'\n[design.factors.'a/b']\nset = 'system.batch'\nlevels = [1]",
         "line 3: 'a/b' cannot be the name of a factor; use at most 60 of a-z, 0-9, _ and -"),
        ("[hosts.machines.'10.0.0.1']\nusr = 'me'",
         "line 2: there is no key 'usr' in [hosts.machines.\"10.0.0.1\"]; did you mean 'user'?"),
        # values
        ("[system]\nbrokers = -1", "line 2: system.brokers is -1; it must be at least 0"),
        ("[system]\nbrokers = 1001", "line 2: system.brokers is 1001; it must be at most 1000"),
        ("[system]\nbatch = 0", "line 2: system.batch is 0; it must be at least 1"),
        ("[system]\nbatch = 1.0", "line 2: system.batch is 1.0; it must be a whole number"),
        ("[system]\nbatch = true", "line 2: system.batch is true; it must be a whole number"),
        ("[system]\nbatch = '1'", 'line 2: system.batch is "1"; it must be a whole number'),
        ("[system]\ndatabase = 'mysql://a'",
         'line 2: system.database is "mysql://a"; it must be "reset", "fresh" or a URL "postgresql://…"'),
        ("system = 3", "line 1: system is 3; it must be a table"),
        ("[preload]\nqueues = 100_001", "line 2: preload.queues is 100001; it must be at most 100000"),
        ("title = 3", "line 1: title is 3; it must be a text in quotes"),
        ("[run]\nduration = 0", "line 2: run.duration is 0; it must be more than 0"),
        ("[run]\nduration = '30 s'", 'line 2: run.duration is "30 s"; it must be a number'),
        ("[run]\nwarm_up = -0.5", "line 2: run.warm_up is -0.5; it must be at least 0"),
        ("[run]\nwarm_up = inf", "line 2: run.warm_up is inf; it must be a finite number"),
        ("[hosts]\nbrokers = []", "line 2: hosts.brokers is []; it must have at least 1 of them"),
        ("[hosts]\nclients = [\n'a',\n'a b']",
         'line 4: hosts.clients.2 is "a b"; it must be the name of a machine or [user@]address[:port]'),
        ("[thresholds]\np98_ms = '< 3'", "line 2: there is no metric 'p98_ms' in [thresholds]; did you mean 'p99_ms'?"),
        ("[thresholds]\np99_ms = 'fast'",
         'line 2: thresholds.p99_ms is "fast"; a threshold is one of < <= > >= == and a number, such as ">= 1000"'),
        ("[design]\nkind = '2^k'", "line 2: design.kind is \"2^k\"; it must be 'single', 'sweep', 'factorial' or '2k'"),
        ("[design]\nkind = 'sweep'\nfactors.a = { set = [1], levels = [1] }",
         'line 3: design.factors.a.set is [1]; it must be a key such as "system.brokers", a list of them,'
         " or a table of their values"),
        ("[design]\nkind = 'sweep'\n[design.factors.a]\nlevels = [1]\nset = {}",
         'line 5: design.factors.a.set: it is empty; it must have keys such as "system.brokers",'
         " with a value for each level"),
        ("[design]\nkind = 'sweep'\n[design.factors.a]\nlevels = [1]\n[design.factors.a.set]\n"
         "'system.batch' = [1]\n'system.brokers' = 1",
         'line 7: design.factors.a.set."system.brokers" is 1; it must be a list with a value for each level'),
        ("[design]\nkind = 'sweep'\n[design.factors.a]\nlevels = [1]\n[design.factors.a.set]\n"
         "'system.batch' = [1]\nsystem.brokers = [1]",
         "line 7: design.factors.a.set.system: it must be a list with a value for each level;"
         ' write the key in quotes: "system.brokers"'),
        # alternatives: one thing about each
        ("[run]\nrepetitions = 0", "line 2: run.repetitions is 0; it must be at least 1"),
        ("[run]\nrepetitions = 'many'", 'line 2: run.repetitions is "many"; it must be a whole number'),
        ("[run]\nrepetitions = {}", "line 2: there is no 'within' in [run.repetitions]; it must be given"),
        ("[run]\nrepetitions = { within = 5 }", "line 2: run.repetitions.within is 5; it must be less than 1"),
        ("[run]\nrepetitions = { within = 0.1, metric = 'p98_ms' }",
         f'line 2: run.repetitions.metric is "p98_ms"; it must be one of {", ".join(METRICS)}'),
        ("[run]\nrepetitions = { within = 0.1, least = 5, most = 4 }",
         "line 2: run.repetitions: least is 5 and most is 4; least must not be more than most"),
        ("[preload]\nsize = -3", "line 2: preload.size is -3; it must be at least 0"),
        ("[preload]\nsize = true",
         "line 2: preload.size is true; a distribution is a number or a table such as { uniform = [100, 2000] }"),
        ("[preload]\nsize = 'big'", f'line 2: preload.size is "big"; {A_DISTRIBUTION}'),
        ("[preload]\nsize = {}", f"line 2: preload.size is {{}}; {A_DISTRIBUTION}"),
        ("[preload]\nsize = { normal = 3 }", f"line 2: preload.size is {{ normal = 3 }}; {A_DISTRIBUTION}"),
        ("[preload]\nsize = { choice = [1], uniform = [1, 2] }",
         f"line 2: preload.size is {{ choice = [1], uniform = [1, 2] }}; {A_DISTRIBUTION}"),
        ("[preload]\nsize = { uniform = [1] }", "line 2: preload.size.uniform is [1]; it has too few values"),
        ("[preload]\nsize = { uniform = [1, 2, 3] }",
         "line 2: preload.size.uniform is [1, 2, 3]; it must have at most 2 of them"),
        ("[preload]\nsize = { uniform = [2, 1] }",
         "line 2: preload.size: uniform must be the least and the most, in that order and not negative"),
        ("[preload]\nsize = { choice = [\n1,\n'x'] }",
         'line 4: preload.size.choice.2 is "x"; it must be a number'),
        ("[preload]\nsize = { exponential = inf }",
         "line 2: preload.size.exponential is inf; it must be a finite number"),
        # values that do not fit one another
        ("[system]\nbrokers = 0",
         "line 2: system.brokers is 0; the clients of [clients.alice] need a broker; set it to at least 1"),
        ("[[faults]]\nat = 1\npause = 'broker-1'\nseconds = 1\n[[faults]]\nat = 2\npause = 'broker-2'\nseconds = 1",
         'line 7: faults.2.pause is "broker-2"; it must be broker-1 or database'),
        ("[[faults]]\nat = 1\npause = 'broker-03'\nseconds = 1\n[system]\nbrokers = 3\ndatabase = 'postgresql://a'",
         'line 3: faults.1.pause is "broker-03"; it must be broker-1 … broker-3'),
        ("[[faults]]\nat = 1\npause = 'database'\nseconds = 1\n[system]\ndatabase = 'postgresql://a'",
         'line 3: faults.1.pause is "database"; it must be broker-1'),
        ("[[faults]]\nat = 36.5\npause = 'database'\nseconds = 1",
         "line 2: faults.1.at is 36.5; the pause would last until 37.5 s after the start,"
         " but the load ends after 37 s"),
        ("[clients.bob]\nbehaviour = 'bob'\ncount = 1\narrivals = 'constant'",
         'line 4: clients.bob.arrivals is "constant"; that needs an open loop; set clients.bob.rate too'),
        ("[clients.bob]\nbehaviour = 'bob'\ncount = 1\nrate = 5\nthink_time = 1",
         "line 5: clients.bob has a think_time and a rate; an open loop has no think time, so set one"),
        ("[clients.bob]\nbehaviour = 'bob'\ncount = 1\nrate = 0",
         "line 4: clients.bob.rate is 0; it must be more than 0"),
        ("[clients.bob]\nbehaviour = 'bob'\ncount = 1\nramp = { clients = 0, every = 1 }",
         "line 4: clients.bob.ramp.clients is 0; it must be at least 1"),
        ("[clients.bob]\nbehaviour = 'bob'\ncount = 1\nqueues = ['q-1', 'q-21']",
         'line 4: clients.bob.queues names "q-21", but preload.queues creates only q-1 … q-20'),
        ("[clients.bob]\nbehaviour = 'bob'\ncount = 1\nqueues = { first = 1, last = 21 }",
         'line 4: clients.bob.queues names "q-21", but preload.queues creates only q-1 … q-20'),
        ("[clients.bob]\nbehaviour = 'bob'\ncount = 1\nqueues = { first = 2, last = 1 }",
         "line 4: clients.bob.queues: queues are a list of names, or { first = 1, last = 18 }"
         " with 1 ≤ first ≤ last ≤ 100000"),
        ("[clients.bob]\nbehaviour = 'bob'\ncount = 1\nqueues = ['q-20', 'q-01', 'q-0']",
         'line 4: clients.bob.queues names "q-01", but preload.queues creates only q-1 … q-20'),
        ("[clients.bob]\nbehaviour = 'bob'\ncount = 1\nqueues = []",
         "line 4: clients.bob.queues is []; it must have at least 1 of them"),
        ("[clients.tola]\nbehaviour = 'tola'\ncount = 1\npartner = 'marija'\n"
         "[clients.maruja]\nbehaviour = 'maruja'\ncount = 1",
         "line 4: clients.tola.partner is \"marija\"; there is no such group; did you mean 'maruja'?"),
        ("[clients.tola]\nbehaviour = 'tola'\ncount = 1",
         'line 1: clients.tola.partner is "maruja"; there is no such group; there are tola, alice'),
        ("[clients.tola]\nbehaviour = 'tola'\ncount = 1\n[clients.maruja]\nbehaviour = 'maruja'\ncount = 0",
         'line 1: clients.tola.partner is "maruja"; that group has no clients; set clients.maruja.count to at least 1'),
        ("[clients.sender]\nbehaviour = 'alice'\ncount = 1\nreceiver = 'alise'",
         "line 4: clients.sender.receiver is \"alise\"; there is no such group; did you mean 'alice'?"),
        ("[clients.mix]\nbehaviour = 'mix'\ncount = 1\nreceiver = 'bob'\n"
         "[clients.bob]\nbehaviour = 'bob'\ncount = 0",
         'line 4: clients.mix.receiver is "bob"; that group has no clients; set clients.bob.count to at least 1'),
        ("[clients.sender]\nbehaviour = 'alice'\ncount = 1\ntargets = 21",
         "line 4: clients.sender.targets is 21; these clients have only 20 queues; lower it or give them more"),
        ("[clients.mix]\nbehaviour = 'mix'\ncount = 1\nqueues = ['q-3']\ntargets = 2",
         "line 5: clients.mix.targets is 2; these clients have only 1 queue; lower it or give them more"),
        ("[clients.paired]\nbehaviour = 'paired'\ncount = 3",
         "line 3: clients.paired.count is 3; these clients come in pairs; make it even"),
    ],
)  # fmt: skip
def test_every_problem_has_its_line_and_its_sentence(text: str, expected: str) -> None:
    assert problems(f"{text}\n{SMALLEST}") == [expected]


ECHO = "[clients.echo]\nbehaviour = 'echo'\ncount = 1\n"


def test_messages_need_a_queue_to_be_in() -> None:
    assert problems(f"[preload]\nqueues = 0\nmessages = 10\n{ECHO}") == [
        "line 3: preload.messages is 10; preload.queues is 0; messages need a queue to be in"
    ]


@pytest.mark.parametrize("behaviour", ["alice", "bob", "carl", "larry", "maruja", "mix", "producer", "rick"])
def test_clients_need_a_queue(behaviour: str) -> None:
    text = f"[preload]\nqueues = 0\n[clients.a]\nbehaviour = '{behaviour}'\ncount = 1\n"
    assert problems(text) == [
        "line 3: clients.a.queues is not given; these clients need a queue; name some, or set preload.queues to at"
        " least 1"
    ]


@pytest.mark.parametrize(
    "group",
    [
        "behaviour = 'bob'\ncount = 0", "behaviour = 'paired'\ncount = 0", "behaviour = 'paired'\ncount = 4",
        "behaviour = 'alice'\ncount = 0\ntargets = 3\nreceiver = 'nobody'",
        "behaviour = 'bob'\ncount = 1\nqueues = ['j']",
        "behaviour = 'alice'\ncount = 2\nqueues = ['j', 'k']\ntargets = 2\nreceiver = 'echo'",
    ],
)  # fmt: skip
def test_what_is_there_and_groups_without_clients_need_nothing(group: str) -> None:
    parse(f"{ECHO}[preload]\nqueues = 0\n[clients.group]\n{group}", folder=Path(), name="x")


def test_a_behaviour_of_one_s_own_says_what_it_needs_of_the_rest(tmp_path: Path) -> None:
    needs = """
    @classmethod
    def contradictions(cls, parameters, group, groups, queues):
        if parameters.speed > groups[group] + len(queues):
            yield "speed", "that is too fast"
"""
    (tmp_path / "mine.py").write_text(OWN + needs)
    text = '[preload]\nqueues = 3\n[clients.me]\nbehaviour = "mine.py:Mine"\ncount = 2\nspeed = 6\n'
    assert problems(text, folder=tmp_path) == ["line 6: clients.me.speed is 6; that is too fast"]
    parse(text.replace("speed = 6", "speed = 5"), folder=tmp_path, name="x")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sped = 1", "there is no key 'sped' in [clients.me]; did you mean 'speed'?"),
        ("speed = 1.5", "clients.me.speed is 1.5; it must be a whole number"),
        ("names = [1]", "clients.me.names is [1]; it has too few values"),
        ("names = 3", "clients.me.names is 3; it must be a list"),
        ("even = 'x'", 'clients.me.even is "x"; it must be true or false'),
        ("shares = { lft = 1 }", "there is no key 'lft' in [clients.me.shares]; did you mean 'left'?"),
    ],
)
def test_a_behaviour_of_one_s_own_checks_its_parameters(tmp_path: Path, line: str, expected: str) -> None:
    (tmp_path / "mine.py").write_text(OWN)
    text = f'[clients.me]\nbehaviour = "mine.py:Mine"\ncount = 1\n{line}\n'
    assert problems(text, folder=tmp_path) == [f"line 4: {expected}"]


@pytest.mark.parametrize(
    "table",
    [
        "system", "preload", "run", "run.repetitions", "clients.alice", "clients.alice.ramp", "design",
        "design.factors.a", "hosts", "hosts.machines.a",
    ],
)  # fmt: skip
def test_every_table_refuses_keys_it_does_not_know(table: str) -> None:
    text = f'{table}.zzz = 1\nclients.alice.behaviour = "alice"\nclients.alice.count = 1\n'
    assert any(
        problem.startswith(f"line 1: there is no key 'zzz' in [{table}]; there are ") for problem in problems(text)
    )
