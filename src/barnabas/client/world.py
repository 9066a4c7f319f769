"""The world that a client lives in unless it is given another one: this machine, by the event loop that runs."""

import asyncio

from barnabas.runtime.interfaces import Runtime
from barnabas.runtime.system import system_runtime


def running_world() -> Runtime:
    return system_runtime(asyncio.get_running_loop())
