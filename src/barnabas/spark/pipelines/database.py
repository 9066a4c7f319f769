"""A JDBC database as the driver of a pipeline talks to it, beside what Spark reads and writes there itself.

Always holds: each statement counts by itself, those of a `transaction` together and when it ends without an error.
Does not know: what statements mean, which database it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.spark.pipelines.model import Run


class Database:
    """One connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._connection.setAutoCommit(False)
        try:
            yield
            self._connection.commit()
        except BaseException:
            self._connection.rollback()
            raise
        finally:
            self._connection.setAutoCommit(True)

    @property
    def product(self) -> str:
        """Its name, as the driver tells it."""
        return str(self._connection.getMetaData().getDatabaseProductName())

    def execute(self, statement: str, *values: str | int) -> int:
        """Gives how many rows it touched."""
        prepared = self._connection.prepareStatement(statement)
        try:
            for place, value in enumerate(values, 1):
                if isinstance(value, int):
                    prepared.setLong(place, value)
                else:
                    prepared.setString(place, value)
            return int(prepared.executeUpdate())
        finally:
            prepared.close()

    def query(self, statement: str) -> list[str | None]:
        """The first column of each row, as text."""
        prepared = self._connection.prepareStatement(statement)
        try:
            rows = prepared.executeQuery()
            found: list[str | None] = []
            while rows.next():
                found.append(rows.getString(1))
            return found
        finally:
            prepared.close()


@contextmanager
def connected(run: Run, url: str, settings: Mapping[str, str]) -> Iterator[Database]:
    """By the driver that Spark uses."""
    jvm: Any = run.spark._jvm
    properties = jvm.java.util.Properties()
    for key, value in settings.items():
        properties.setProperty(key, value)
    connection = jvm.java.sql.DriverManager.getConnection(url, properties)
    try:
        yield Database(connection)
    finally:
        connection.close()
