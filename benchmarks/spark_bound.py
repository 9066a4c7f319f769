"""The bound of `make bench-spark`: a Python data source that only repeats one Arrow batch that it has at hand.

Spark makes rows of it as of any other, so no Python source with these columns can be faster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NAME = "ready_rows"


def register(spark: Any, *, row_count: int, task_count: int, value_bytes: int) -> None:
    """Makes it known to a session. The classes are local, so that Spark's workers get them by value."""
    import pyarrow as pa
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
    from pyspark.sql.types import StructType

    from barnabas.spark import schema

    batch_rows = 20_000  # as those of `barnabas`
    columns = [name for name in schema.ARROW_TYPES if name != schema.HEADERS]

    class ReadyRows(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> str:
            return schema.spark_ddl(columns, None)

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader()

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(task_count)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            from barnabas.spark.workers import settle

            settle()
            found = ready_batch()
            left = row_count * (partition.value + 1) // task_count - row_count * partition.value // task_count
            while left > 0:
                yield found.slice(0, min(left, batch_rows))
                left -= batch_rows

    def ready_batch() -> pa.RecordBatch:
        import numpy as np

        from barnabas.spark.arrow.binary_columns import (
            StridedBytes,
            constant_text,
            number_array,
            strided_binary_array,
        )

        numbers = np.arange(batch_rows)
        value = bytes(range(value_bytes))
        arrays = [
            pa.nulls(batch_rows, pa.binary()),
            strided_binary_array(value, [StridedBytes(0, len(value), 0, batch_rows)]),
            constant_text("bench", batch_rows),
            number_array(numbers.astype(np.int32), pa.int32()),
            number_array(numbers, pa.int64()),
            number_array(numbers, schema.ARROW_TYPES[schema.TIMESTAMP]),
            number_array(numbers.astype(np.int32), pa.int32()),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema.arrow_schema(columns))

    spark.dataSource.register(ReadyRows)
