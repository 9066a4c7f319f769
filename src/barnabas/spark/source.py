"""The data source as Spark sees it: format `barnabas`, built from options; readers and writers are made from here.

Options are checked when a reader or writer is made, before anything is read or written.
Light to import: Spark imports it in every session that looks for data sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
    from pyspark.sql.types import StructType

    from barnabas.spark.options import Options

# What Spark itself puts among the options of a read.
ADDED_BY_SPARK = ("path", "paths", "queryName", "checkpointLocation")


class BarnabasSource(DataSource):
    is_copy = False  # of one that Spark pickled

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.is_copy = True

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> str:
        from barnabas.spark.schema import columns, spark_ddl
        from barnabas.spark.values.value_format import check, value_ddl

        options = self._read_options()
        check(options)
        return spark_ddl(columns(options), value_ddl(options))

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark.sql.pandas.types import to_arrow_schema

        from barnabas.spark.reading.batch_reader import BatchReader
        from barnabas.spark.reading.read_checks import check_batch, check_schema
        from barnabas.spark.values.value_format import value_decoder

        options = self._read_options()
        check_batch(options)
        check_schema(schema.names, options)
        return BatchReader(options, to_arrow_schema(schema, timezone="UTC"), value_decoder(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pyspark.sql.pandas.types import to_arrow_schema

        from barnabas.spark.reading.read_checks import check_schema, check_stream
        from barnabas.spark.reading.stream_reader import StreamReader
        from barnabas.spark.values.value_format import value_decoder

        options = self._read_options()
        check_stream(options)
        check_schema(schema.names, options)
        return StreamReader(options, to_arrow_schema(schema, timezone="UTC"), value_decoder(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from barnabas.spark.writing.writer import BatchWriter

        return BatchWriter(self.options, schema, overwrite).planned()

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from barnabas.spark.writing.writer import StreamWriter

        writer = StreamWriter(self.options, schema, overwrite)
        # Spark plans a batch with a source that it builds anew, and commits it with a copy of one that it had pickled;
        # a plan in the latter would fence the very batch that it is to commit.
        return writer if self.is_copy else writer.planned()

    def _read_options(self) -> Options:
        from barnabas.spark.options import READ_OPTIONS, Options

        return Options(self.options, READ_OPTIONS, ignored=ADDED_BY_SPARK)
