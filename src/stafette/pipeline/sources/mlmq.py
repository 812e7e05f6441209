"""Performance logs of mlmq, in both of its formats, from clients and brokers, in folders and under names as they come.

::

    BrokerConfiguration Scenario[SimpleShutdownBroker] Port[8099] …              a first line about the settings
    129;1383684920569;BProcReq#RegistrationRequest:RegistrationResponse;C[10]    milliseconds;epoch milliseconds;action;context
    12;20131028143015;ClientSendRequest#OK#LoginRequest:LoginResponse            older: milliseconds;yyyyMMddHHmmss;action

The time, of UTC, is when the action was finished; it began so many milliseconds before. The older format knows seconds
only. Actions have a long name and a short one, and this is where they go:

    ClientSendRequest     CSndReq        tier client             operation: the request; outcome: ok, Timeout, the message
    TotalRequestResponse  BTotReqResp    tier broker             of any request, for the line does not say which
    ReceiveRequest        BRcvReq        tier "broker receive"   of any request
    ProcessRequest        BProcReq       tier "broker process"   operation: the request
                          BDb            tier "broker database"  operation: the call; outcome: ok, empty, Error
    SendResponse          BSndResp       tier "broker send"      of any request

No line says whose request it is of (the context is about the broker as a whole), so what a broker does for a request
cannot be put together to phases of one row. The parts are tiers of their own rather than operations of the broker:
else the broker's total would count every request four times.

The run is the name of the folder that was given, the node the file's path within it. A line that cannot be understood
is rejected; only the first line of a file may be a text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stafette.errors import InvalidRequest
from stafette.pipeline.schema import ROWS, check
from stafette.pipeline.sources import files, lines
from stafette.pipeline.sources.base import Source
from stafette.pipeline.sources.made_up import runs_of

MILLISECOND = 1_000_000
CLIENT, TOTAL, RECEIVE, PROCESS, DATABASE, SEND = (
    "client", "broker", "broker receive", "broker process", "broker database", "broker send"
)  # fmt: skip
ACTIONS = {
    "ClientSendRequest": CLIENT, "CSndReq": CLIENT,
    "TotalRequestResponse": TOTAL, "BTotReqResp": TOTAL,
    "ReceiveRequest": RECEIVE, "BRcvReq": RECEIVE,
    "ProcessRequest": PROCESS, "BProcReq": PROCESS,
    "BDb": DATABASE,
    "SendResponse": SEND, "BSndResp": SEND,
}  # fmt: skip
"""Which tier an action is of, by its long and its short name."""
ANY = {TOTAL: "TotalRequestResponse", RECEIVE: "ReceiveRequest", SEND: "SendResponse"}
"""What operations are called of which the log does not say more."""
HEADER = "^[A-Za-z]"


def read(spark: SparkSession, folders: Sequence[str | Path]) -> Source:
    """Read all files below the folders; each folder is a run."""
    roots = files.roots(folders)
    found = files.text_below(spark, list(roots))
    good, bad = lines.readable(spark, found)
    if not good:
        why = f": {bad[0].file} {bad[0].reason}" if bad else ""
        raise InvalidRequest(f"there is no file to read in {', '.join(roots)}{why}")
    text = lines.read(spark, good)
    rows = check(parsed(text, roots).where(F.col("reason").isNull()), ROWS)
    rejects = lines.rejects(text, _reason(), header=F.col("text").rlike(HEADER))
    if bad:
        rejects = rejects.unionByName(files.bad_files(spark, bad))
    folder_of = {run: root for root, run in roots.items()}
    return Source(rows, rejects, runs_of(rows, client="node", folders=folder_of))


def parsed(text: DataFrame, roots: Mapping[str, str]) -> DataFrame:
    """The columns of ROWS from lines, and ``reason``: why a line cannot be used, or null."""
    end = _end_ns()
    start = end - _milliseconds() * MILLISECOND
    return text.select(
        _reason().alias("reason"),
        files.run_of(roots).alias("run"),
        _tier().alias("tier"),
        files.within(roots).alias("node"),
        F.lit("").alias("client"),
        F.lit(0).alias("request"),
        _operation().alias("operation"),
        _outcome().alias("outcome"),
        start.alias("intended_ns"),
        start.alias("start_ns"),
        end.alias("end_ns"),
        *(F.lit(None).alias(field.name) for field in ROWS if field.name.endswith("_ns") and field.nullable),
        F.lit(0).alias("bytes"),
        F.lit(0).alias("messages"),
        F.lit(None).alias("batch"),
    )


def _field(number: int) -> Column:
    return F.get(F.split("text", ";", 3), F.lit(number))


def _milliseconds() -> Column:
    return F.when(_field(0).rlike(r"^\d{1,12}$"), _field(0)).try_cast("bigint")


def _older() -> Column:
    return F.length(_field(1)) == 14


def _end_ns() -> Column:
    calendar = F.unix_millis(F.try_to_timestamp(F.concat(_field(1), F.lit("Z")), F.lit("yyyyMMddHHmmssX")))
    digits = F.when(_field(1).rlike(r"^\d{1,14}$"), _field(1))
    return F.when(_older(), calendar).otherwise(digits.try_cast("bigint")) * MILLISECOND


def _action() -> Column:
    """Without the context, which is behind the last semicolon: a message in it may have semicolons, too."""
    return F.when(_older(), _field(2)).otherwise(F.regexp_replace(_field(2), ";[^;]*$", ""))


def _name() -> Column:
    return F.substring_index(_action(), "#", 1)


def _tier() -> Column:
    pairs = [F.lit(word) for action, tier in ACTIONS.items() for word in (action, tier)]
    return F.try_element_at(F.create_map(*pairs), _name())


def _request() -> Column:
    """The request of Request:Response, which ends the action."""
    return F.regexp_extract(_action(), r"#([^#:]+):[^#:]*$", 1)


def _operation() -> Column:
    tier = _tier()
    named = F.when(tier.isin(CLIENT, PROCESS), _request())
    named = named.when(tier == DATABASE, F.regexp_extract(_action(), "^[^#]*#([^#]+)", 1))
    for of, operation in ANY.items():
        named = named.when(tier == of, F.lit(operation))
    return named


def _outcome() -> Column:
    """A client's error is #Timeout or ##message before the request; a dequeue ends in the number it found."""
    message = F.trim(F.regexp_extract(_action(), "^[^#]*#Error#(.*)#[^#]*$", 1), F.lit("#"))
    client = F.when(_action().rlike("^[^#]*#OK#"), F.lit("ok")).when(
        _action().rlike("^[^#]*#Error#"), F.when(message == "", F.lit("Error")).otherwise(message)
    )
    database = F.when(_action().endswith("#Error"), F.lit("Error")).when(_action().endswith("#Ok#0"), F.lit("empty"))
    return (
        F.when(_tier() == CLIENT, client)
        .when(_tier() == DATABASE, F.coalesce(database, F.lit("ok")))
        .otherwise(F.lit("ok"))
    )


def _reason() -> Column:
    return (
        F.when(F.trim("text") == "", F.lit("the line is empty"))
        .when(_field(2).isNull(), F.lit("a line has three or four fields with semicolons between them"))
        .when(_milliseconds().isNull(), F.lit("the milliseconds are not a whole number"))
        .when(_end_ns().isNull(), F.lit("the time is neither epoch milliseconds nor yyyyMMddHHmmss"))
        .when(_tier().isNull(), F.concat(F.lit("there is no action "), F.left(_name(), F.lit(50))))
        .when(_operation() == "", F.lit("the action does not name its request"))
        .when(_outcome().isNull(), F.lit("the action says neither OK nor Error"))
    )
