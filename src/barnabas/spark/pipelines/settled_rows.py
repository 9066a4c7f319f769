"""How far a table may be read by a column that grows, so that no row is missed that commits later.

A row takes its number before its transaction commits, so a larger number may be visible while a smaller one is not.
What is seen is therefore read only once it is settled:

    PostgreSQL   when every transaction has ended that wrote anything, or took a number of a sequence, when it was seen
    others       when it was seen SETTLE_SECONDS ago, or as long ago as the flow says

Always holds: with PostgreSQL, rows whose number is taken by the transaction that inserts them are all visible once
their range is settled, however long transactions take. With others that holds for transactions that commit within the
time after a larger number became visible. Does not know: what becomes of rows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from barnabas.spark.pipelines.database import Database, connected

if TYPE_CHECKING:
    from barnabas.spark.pipelines.model import Run

SETTLE_SECONDS = 10.0
LOOK_SECONDS = 0.1
PATIENCE_SECONDS = 60.0  # a run that is to end gives up after this; others say who holds them back, and wait on
PREPARED = "-1/"  # so begin the transactions that PostgreSQL keeps for a two-phase commit
# Whoever inserts holds this lock on the table, and whoever takes a number on the sequence, until the transaction ends.
WRITERS = """
SELECT DISTINCT held.virtualtransaction || ' (process ' || coalesce(held.pid, 0) || ')'
FROM pg_locks held JOIN pg_class relation ON relation.oid = held.relation
WHERE held.locktype = 'relation' AND held.granted AND held.mode = 'RowExclusiveLock'
AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
AND relation.relkind IN ('r', 'p', 'S')
"""

logger = logging.getLogger(__name__)


class RowsHeldBack(Exception):
    """Rows are there, but transactions that may bring smaller numbers do not end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The largest number that was visible, and what must pass before all below it are."""

    end: int
    at_s: float
    settle_s: float
    writers: frozenset[str]  # transactions that were open; none where the database does not tell

    def held_back_by(self, writers: frozenset[str], now_s: float) -> str | None:
        """Who or what it still waits for; None where it is settled."""
        # One that was prepared meanwhile goes on under another name, so no prepared one can be told from it.
        left = sorted(each for each in writers if each in self.writers or each.startswith(PREPARED))
        if left:
            return f"open transactions {', '.join(left)}"
        left_s = self.at_s + self.settle_s - now_s
        return f"{left_s:.1f} seconds to pass" if left_s > 0 else None


def settled_end(
    run: Run,
    url: str,
    settings: Mapping[str, str],
    *,
    newest: str,
    settle_s: float | None,
) -> int | None:
    """The largest number, as the statement `newest` gives it, once it is settled; None where there is none, or the
    pipeline is stopped meanwhile."""
    with connected(run, url, settings) as database:
        tells = _tells_writers(database)
        (largest,) = database.query(newest)
        if largest is None:
            return None
        # Asked after the largest number was seen: who had taken a smaller one by then, and is not named, has ended.
        writers = _writers(database) if tells else frozenset()
        default_s = 0.0 if tells else SETTLE_SECONDS
        sighting = Sighting(
            end=int(Decimal(largest)),
            at_s=time.monotonic(),
            settle_s=default_s if settle_s is None else settle_s,
            writers=writers,
        )
        told_s = sighting.at_s + sighting.settle_s
        while (reason := sighting.held_back_by(writers, time.monotonic())) is not None:
            if time.monotonic() - told_s > PATIENCE_SECONDS:
                problem = (
                    f"rows up to {sighting.end} are held back by {reason}: they may bring rows with smaller numbers"
                )
                if run.once:
                    raise RowsHeldBack(problem)
                logger.warning("%s: %s", newest, problem)
                told_s = time.monotonic()
            if run.stopped.wait(LOOK_SECONDS):
                return None
            writers = _writers(database) if tells else frozenset()
    return sighting.end


def _tells_writers(database: Database) -> bool:
    """Only PostgreSQL itself does, and only where rows are written: a standby knows nothing of the writers."""
    if database.product != "PostgreSQL":
        return False
    (found,) = database.query("SELECT version() LIKE 'PostgreSQL%' AND NOT pg_is_in_recovery()")
    return found == "t"


def _writers(database: Database) -> frozenset[str]:
    return frozenset(each for each in database.query(WRITERS) if each is not None)
