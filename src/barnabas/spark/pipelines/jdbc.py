"""Ready flows between topics and a JDBC database, exactly once both ways.

In: rows of a table in the order of a column that only grows. How far it came is the number of the sink's last batch, so
that the rows and the place where to go on become visible together.
Out: a batch goes to a table beside the target, and from there into it in one transaction of the database, together
with its number; a batch that is there already is left out.
Always holds: nothing is kept but in the cluster and in the database. Does not know: which database it is, beyond SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from barnabas.spark.pipelines.model import EachBatch, Flow, Polling, Run, TopicSink
from barnabas.spark.pipelines.processing import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

ROWS_PER_POLL = 100_000
PROGRESS_TABLE = "barnabas_progress"


def jdbc_in(
    name: str,
    *,
    url: str,
    table: str,
    sink: str,
    column: str,
    key: str | None = None,
    options: Mapping[str, str] | None = None,
    rows_per_poll: int = ROWS_PER_POLL,
) -> Polling:
    """New rows of a table as JSON. `column` is a whole number of its own for each row, and grows."""

    def poll(run: Run) -> int:
        from pyspark.sql import functions as F

        # The place is kept in the cluster for all to see, and a URL may hold a password.
        query_id = sha256(f"{url} {table} {column}".encode()).hexdigest()
        last = _last_batch(run, name, query_id)
        wanted = f"(SELECT * FROM {table} WHERE {column} > {last} ORDER BY {column} LIMIT {rows_per_poll}) AS fresh"
        reader = run.spark.read.format("jdbc").options(**(options or {}), url=url, dbtable=wanted)
        rows = reader.load().persist()
        try:
            found = rows.agg(F.count("*"), F.max(column)).first()
            if found is None or not found[0]:
                return 0
            count, end = found
            chosen = [F.col(key).cast("string").alias("key")] if key is not None else []
            records = rows.select(*chosen, F.to_json(F.struct(*rows.columns)).alias("value"))
            topic = TopicSink(sink, options={"queryId": query_id})
            run.write(records, topic, name, int(end))
            return int(count)
        finally:
            rows.unpersist()

    return Polling(name=name, poll=poll)


def _last_batch(run: Run, flow: str, query_id: str) -> int:
    from barnabas.spark.connections import connections
    from barnabas.spark.writing.progress import read
    from barnabas.spark.writing.write_options import WriteOptions

    options = WriteOptions({**run.sink_options(TopicSink(""), flow)})

    async def ask() -> int:
        cluster = await connections().cluster(options.config)
        found = await read(cluster, options.config, options.progress_topic, options.sink)
        decision = found.decision
        return decision.batch.batch_id if decision is not None and decision.batch.query_id == query_id else -1

    return connections().run(ask())


def jdbc_out(
    name: str,
    *,
    source: str,
    url: str,
    table: str,
    schema: str,
    options: Mapping[str, str] | None = None,
    dead_letter: str | None = None,
) -> Flow:
    """The fields of a topic's values as rows of a table, which must be there."""
    beside = f"{table}_barnabas_batch"
    settings = dict(options or {})

    def build(run: Run) -> DataFrame:
        rows = parsed(run.stream(source), schema, strict=dead_letter is None)
        errors = ["error", "key", "value"] if dead_letter is not None else []
        return rows.select(*errors, "data.*")

    def write(run: Run, rows: DataFrame, batch_id: int) -> None:
        rows = rows.drop("key", "value") if dead_letter is not None else rows
        rows.write.format("jdbc").options(**settings, url=url, dbtable=beside).mode("overwrite").save()
        _take_over(run, url, settings, table, beside, rows.columns, run.sink_id(name), batch_id)

    return Flow(name=name, build=build, sink=EachBatch(write), dead_letter=dead_letter)


def _take_over(
    run: Run,
    url: str,
    settings: Mapping[str, str],
    table: str,
    beside: str,
    columns: list[str],
    sink: str,
    batch_id: int,
) -> None:
    names = ", ".join(f'"{column}"' for column in columns)
    query_id = run.spark.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
    with _connected(run, url, settings) as execute:
        execute(
            f"CREATE TABLE IF NOT EXISTS {PROGRESS_TABLE} "
            "(sink VARCHAR(200) PRIMARY KEY, query VARCHAR(100) NOT NULL, batch BIGINT NOT NULL)"
        )
        execute(
            f"INSERT INTO {PROGRESS_TABLE} SELECT ?, '', -1 "
            f"WHERE NOT EXISTS (SELECT 1 FROM {PROGRESS_TABLE} WHERE sink = ?)",
            sink,
            sink,
        )
        # The row is locked by this: of two drivers one waits for the other.
        moved = execute(
            f"UPDATE {PROGRESS_TABLE} SET query = ?, batch = ? WHERE sink = ? AND (query <> ? OR batch < ?)",
            query_id,
            batch_id,
            sink,
            query_id,
            batch_id,
        )
        if moved:
            execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {beside}")


@contextmanager
def _connected(run: Run, url: str, settings: Mapping[str, str]) -> Iterator[Any]:
    """One transaction, by the driver that Spark uses; `execute` gives how many rows a statement touched."""
    jvm: Any = run.spark._jvm
    properties = jvm.java.util.Properties()
    for key, value in settings.items():
        properties.setProperty(key, value)
    connection = jvm.java.sql.DriverManager.getConnection(url, properties)

    def execute(statement: str, *values: str | int) -> int:
        prepared = connection.prepareStatement(statement)
        try:
            for place, value in enumerate(values, 1):
                if isinstance(value, int):
                    prepared.setLong(place, value)
                else:
                    prepared.setString(place, value)
            return int(prepared.executeUpdate())
        finally:
            prepared.close()

    try:
        connection.setAutoCommit(False)
        yield execute
        connection.commit()
    except BaseException:
        connection.rollback()
        raise
    finally:
        connection.close()
