"""The Python processes that Spark runs tasks in, and keeps for the next ones."""

import gc

_is_settled = False


def settle() -> None:
    """Tells the garbage collector that what is loaded by now stays: Spark has it collect after every task, which would
    go through all modules each time, for some 50 ms. Only the first call of a process does anything."""
    global _is_settled
    if not _is_settled:
        _is_settled = True
        gc.freeze()
