"""Ready flows between topics and a JDBC database, exactly once both ways.

In: rows of a table in the order of a column that only grows, as far as they are settled (`settled_rows`). How far it
came is the number of the sink's last batch, so that the rows and the place where to go on become visible together.
Out: a batch goes to a table of the process's own beside the target, and from there into it in one transaction of the
database, together with its number; a batch that is there already is left out. Where the process is killed in between,
that table stays.
Always holds: nothing is kept but in the cluster and in the database. Does not know: which database it is, beyond SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING
from uuid import uuid4

from barnabas.spark.pipelines.database import connected
from barnabas.spark.pipelines.model import EachBatch, Flow, Polling, Run, TopicSink
from barnabas.spark.pipelines.processing import parsed
from barnabas.spark.pipelines.settled_rows import settled_end

if TYPE_CHECKING:
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
    settle_seconds: float | None = None,
) -> Polling:
    """New rows of a table as JSON. `column` is a whole number from 0 on, of its own for each row, and grows.

    Rows are read once no row with a smaller number can come any more: see `settled_rows`. `settle_seconds` is for how
    long a transaction may stay open where the database does not tell who writes.
    """
    settings = dict(options or {})
    settled = -1  # up to here no row can come any more

    def poll(run: Run) -> int:
        from pyspark.sql import functions as F

        nonlocal settled
        # The place is kept in the cluster for all to see, and a URL may hold a password.
        query_id = sha256(f"{url} {table} {column}".encode()).hexdigest()
        last = _last_batch(run, name, query_id)
        if settled <= last:
            newest = f"SELECT max({column}) FROM {table} WHERE {column} > {last}"
            end = settled_end(run, url, settings, newest=newest, settle_s=settle_seconds)
            if end is None:
                return 0
            settled = end
        fresh = f"{column} > {last} AND {column} <= {settled}"
        wanted = f"(SELECT * FROM {table} WHERE {fresh} ORDER BY {column} LIMIT {rows_per_poll}) AS fresh"
        reader = run.spark.read.format("jdbc").options(**settings, url=url, dbtable=wanted)
        rows = reader.load().persist()
        try:
            found = rows.agg(F.count("*"), F.max(column)).first()
            if found is None or not found[0]:
                settled = last  # they were deleted; what came meanwhile is to be looked for
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
    # Of this process alone: another flow into the table, or a driver that was taken for dead, must not write into it.
    beside = f"{table}_barnabas_{uuid4().hex[:8]}"
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
    with connected(run, url, settings) as database, database.transaction():
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {PROGRESS_TABLE} "
            "(sink VARCHAR(200) PRIMARY KEY, query VARCHAR(100) NOT NULL, batch BIGINT NOT NULL)"
        )
        database.execute(
            f"INSERT INTO {PROGRESS_TABLE} SELECT ?, '', -1 "
            f"WHERE NOT EXISTS (SELECT 1 FROM {PROGRESS_TABLE} WHERE sink = ?)",
            sink,
            sink,
        )
        # The row is locked by this: of two drivers one waits for the other.
        moved = database.execute(
            f"UPDATE {PROGRESS_TABLE} SET query = ?, batch = ? WHERE sink = ? AND (query <> ? OR batch < ?)",
            query_id,
            batch_id,
            sink,
            query_id,
            batch_id,
        )
        if moved:
            database.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {beside}")
        database.execute(f"DROP TABLE {beside}")  # last, for in some databases it ends the transaction
