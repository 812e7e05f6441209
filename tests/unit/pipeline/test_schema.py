from __future__ import annotations

import pyarrow as pa

from stafette import trace
from stafette.pipeline.schema import REJECTS, ROWS

SPARK_NAMES = {"int32": "int", "int64": "bigint", "string": "string"}


def test_rows_have_the_columns_of_the_trace_in_their_order_and_of_their_types() -> None:
    expected = [(field.name, SPARK_NAMES[str(plain(field.type))], field.nullable) for field in trace.SCHEMA]

    assert [(field.name, field.dataType.simpleString(), field.nullable) for field in ROWS] == expected


def test_rejects_say_where_and_why() -> None:
    assert REJECTS.simpleString() == "struct<file:string,line:bigint,text:string,reason:string>"


def plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
