"""A cluster in a process of its own, called through its standard input and output: `python -m barnabas.testing.child`.

A call is a pickled name with arguments, its answer a pickled value or exception, each after its length. The first call
makes the cluster. The end of the input ends everything: the child never outlives the process that started it.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from typing import IO

from barnabas.testing.cluster import Cluster
from barnabas.testing.pipe import receive, send


def main() -> None:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever prints must not come between
    cluster: Cluster | None = None
    with answers, contextlib.suppress(BrokenPipeError):
        try:
            while (call := receive(sys.stdin.buffer)) is not None:
                name, arguments = call
                try:
                    if cluster is None:
                        cluster = Cluster(**arguments[0])
                        result = cluster.start()
                    else:
                        result = getattr(cluster, name)(*arguments)
                except Exception as error:
                    _send_error(answers, error)
                else:
                    send(answers, (True, result))
        finally:
            if cluster is not None:
                cluster.close()


def _send_error(answers: IO[bytes], error: Exception) -> None:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # it cannot travel: its words can
        error = RuntimeError(f"{type(error).__name__}: {error}")
    send(answers, (False, error))


if __name__ == "__main__":
    main()
