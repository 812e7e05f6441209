"""Performance logs of mlmq, in both of its formats, from clients and brokers, in any folders and under any names.

::

    BrokerConfiguration Scenario[SimpleShutdownBroker] Port[8099] …            a first line about the settings
    129;1383684920569;BProcReq#RegistrationRequest:RegistrationResponse;C[10]  took (ms);epoch (ms);action;context
    12;20131028143015;ClientSendRequest#OK#LoginRequest:LoginResponse          older: took (ms);yyyyMMddHHmmss;action

The time, in UTC, is the end of the action, which began so many milliseconds before. The older format has whole seconds
only. Actions have a long name and a short one; tier and outcome follow from them:

    ClientSendRequest     CSndReq        tier client             operation: the request; outcome: ok, Timeout, message
    TotalRequestResponse  BTotReqResp    tier broker             of any request, for the line does not say which
    ReceiveRequest        BRcvReq        tier "broker receive"   of any request
    ProcessRequest        BProcReq       tier "broker process"   operation: the request
                          BDb            tier "broker database"  operation: the call; outcome: ok, empty, Error
    SendResponse          BSndResp       tier "broker send"      of any request

Lines have no id of the request (the context is about the broker as a whole), so a broker's lines of a request cannot be
joined to phases of one row. They are tiers of their own rather than operations of the broker: otherwise the broker's
total would count every request four times.

The run is the name of the folder to read, the node the file's path in it. A line that cannot be parsed is rejected;
only the first line of a file may be a text.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from stafette.pipeline.fingerprint import fingerprint
from stafette.pipeline.schema import REJECTS, ROWS, small
from stafette.pipeline.sources import lines
from stafette.pipeline.sources.base import LONGEST_NS, BadFile, Source

KIND = "mlmq"
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
"""The tier of each action, by its long and its short name."""
DEFAULT_OPERATIONS = {TOTAL: "TotalRequestResponse", RECEIVE: "ReceiveRequest", SEND: "SendResponse"}
"""The operation of tiers whose lines do not name it."""
HEADER_PATTERN = "^[A-Za-z]"


def read(
    spark: SparkSession, folders: Sequence[str | Path], *, kept: Container[str] = (), bad: Sequence[BadFile] = ()
) -> Source:
    """Read all files below the folders, without bad ones; each folder is a run."""
    texts = lines.read(spark, folders, bad=bad)
    fingerprints = {"": fingerprint(KIND, texts.fingerprint)}
    if fingerprints[""] in kept:
        empty = Source(small(spark, [], ROWS), small(spark, [], REJECTS))
        return replace(empty, fingerprints=fingerprints, folders=texts.folders, bytes={"": texts.bytes})
    source = lines.source(texts, _parse(texts.lines), F.col("text").rlike(HEADER_PATTERN), bad)
    return replace(
        source,
        fingerprints=fingerprints,
        fresh=[""],
        paired=False,
        without=lambda bad_file: read(spark, folders, bad=[*bad, bad_file]),
    )


def _parse(text: DataFrame) -> DataFrame:
    """Lines with the columns of ROWS, and with ``reason``: why a line is rejected, or null."""
    fields = F.split("text", ";", 3)
    # In steps, so that shared columns are computed once.
    rows = text.select("*", *(F.get(fields, F.lit(i)).alias(name) for i, name in enumerate(("took", "time", "rest"))))
    rows = rows.withColumns({"milliseconds": _milliseconds(), "end_ns": _end_ns(), "action": _action()})
    rows = rows.withColumns({"name": F.substring_index("action", "#", 1), "message": _message()})
    rows = rows.withColumn("tier", _tier(F.col("name")))
    rows = rows.withColumns({"operation": _operation(F.col("tier")), "outcome": _outcome(F.col("tier"))})
    start = F.col("end_ns") - F.col("milliseconds") * MILLISECOND
    null_columns = [field.name for field in ROWS if field.nullable]
    return rows.select(
        "*",
        _reason().alias("reason"),
        F.lit("").alias("client"),
        F.lit(0).alias("request"),
        start.alias("intended_ns"),
        start.alias("start_ns"),
        *(F.lit(None).alias(name) for name in null_columns),
        F.lit(0).alias("bytes"),
        F.lit(0).alias("messages"),
    )


def _milliseconds() -> Column:
    return F.when(F.col("took").rlike(r"^\d{1,12}$"), F.col("took")).try_cast("bigint")


def _is_older_format() -> Column:
    return F.length("time") == 14


def _end_ns() -> Column:
    calendar = F.unix_millis(F.try_to_timestamp(F.concat("time", F.lit("Z")), F.lit("yyyyMMddHHmmssX")))
    digits = F.when(F.col("time").rlike(r"^\d{1,13}$"), F.col("time"))
    return F.when(_is_older_format(), calendar).otherwise(digits.try_cast("bigint")) * MILLISECOND


def _action() -> Column:
    """All but the context, which follows the last semicolon: the action's message may have semicolons, too."""
    return F.when(_is_older_format(), F.col("rest")).otherwise(F.regexp_replace("rest", ";[^;]*$", ""))


def _request() -> Column:
    """The request of Request:Response, the end of the action."""
    return F.regexp_extract("action", r"#([^#:]+):[^#:]*$", 1)


def _message() -> Column:
    """A client's error: #Timeout or ##message before the request."""
    error = F.regexp_extract("action", "^[^#]*#Error#(.*)#[^#]*$", 1)
    return F.when(F.col("action").contains("#Error#"), F.trim(error, F.lit("#")))


def _tier(name: Column) -> Column:
    pairs = [F.lit(word) for action, tier in ACTIONS.items() for word in (action, tier)]
    return F.try_element_at(F.create_map(*pairs), name)


def _operation(tier: Column) -> Column:
    operation = F.when(tier.isin(CLIENT, PROCESS), _request())
    operation = operation.when(tier == DATABASE, F.regexp_extract("action", "^[^#]*#([^#]+)", 1))
    for tier_name, default in DEFAULT_OPERATIONS.items():
        operation = operation.when(tier == tier_name, F.lit(default))
    return operation


def _outcome(tier: Column) -> Column:
    """A read in the database ends in the number of its messages; 0 is empty."""
    action = F.col("action")
    client = F.when(action.rlike("^[^#]*#OK#"), F.lit("ok")).when(
        action.rlike("^[^#]*#Error#"), F.when(F.col("message") == "", F.lit("Error")).otherwise(F.col("message"))
    )
    database = F.when(action.endswith("#Error"), F.lit("Error")).when(action.endswith("#Ok#0"), F.lit("empty"))
    return (
        F.when(tier == CLIENT, client).when(tier == DATABASE, F.coalesce(database, F.lit("ok"))).otherwise(F.lit("ok"))
    )


def _reason() -> Column:
    return (
        F.when(F.trim("text") == "", F.lit("the line is empty"))
        .when(F.col("rest").isNull(), F.lit("a line has three or four fields with semicolons between them"))
        .when(F.col("milliseconds").isNull(), F.lit("the milliseconds are not a whole number"))
        .when(F.col("end_ns").isNull(), F.lit("the time is neither epoch milliseconds nor yyyyMMddHHmmss"))
        .when(F.col("milliseconds") > LONGEST_NS // MILLISECOND, F.lit("it takes more than 31 days"))
        .when(F.col("tier").isNull(), F.concat(F.lit("there is no action "), F.left("name", F.lit(50))))
        .when(F.col("operation") == "", F.lit("the action does not name its request"))
        .when(F.col("outcome").isNull(), F.lit("the action says neither OK nor Error"))
    )
