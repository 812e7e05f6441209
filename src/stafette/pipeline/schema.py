"""The tables that sources give, as Spark types, and the check that closes every step.

A step ends in ``check``: its result has exactly the agreed columns, in their order and of their types, so a mistake
shows where it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, DoubleType, IntegerType, LongType, StringType, StructField, StructType

from stafette import trace
from stafette.errors import InternalError

_TYPES: dict[pa.DataType, DataType] = {
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
}


def from_arrow(schema: pa.Schema) -> StructType:
    """The same columns for Spark; strings of a dictionary are strings."""
    return StructType([StructField(field.name, _type(field.type), field.nullable) for field in schema])


def _type(arrow: pa.DataType) -> DataType:
    return _TYPES[arrow.value_type if pa.types.is_dictionary(arrow) else arrow]


ROWS = from_arrow(trace.SCHEMA)
"""One row per request and tier, whatever the source."""

REJECTS = StructType(
    [
        StructField("file", StringType(), nullable=False),
        StructField("line", LongType(), nullable=False),  # from 1; 0: the whole file
        StructField("text", StringType(), nullable=False),
        StructField("reason", StringType(), nullable=False),
    ]
)
"""What could not be read, and why."""

REJECTED_TEXT = 200
"""The number of characters of a rejected line that are stored."""


def small(spark: SparkSession, rows: Iterable[Sequence[object]], schema: StructType | str) -> DataFrame:
    """A small table of local rows. It is sent as Arrow: for a list, Spark would start Python on its workers."""
    types = StructType.fromDDL(schema) if isinstance(schema, str) else schema
    assert isinstance(types, StructType)
    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    arrow = to_arrow_schema(types)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, arrow, strict=True)]
    table: DataFrame = spark.createDataFrame(pa.Table.from_arrays(arrays, schema=arrow), types)
    return table


def check(frame: DataFrame, schema: StructType) -> DataFrame:
    """Exactly the columns of the schema, in its order and of its types."""
    types = {field.name: field.dataType for field in frame.schema}
    missing = [field.name for field in schema if field.name not in types]
    if missing:
        raise InternalError(f"the table has no column {', '.join(missing)}; it has {', '.join(types)}")
    return frame.select(*(F.col(f"`{field.name}`").cast(field.dataType).alias(field.name) for field in schema))
