"""Imports point down, rules are pure, and only the door to the world touches it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable

import pytest

from barnabas.cli.main import COMMANDS, SERVING
from barnabas.server.dispatch import HANDLERS
from tools.tidy import architecture, repository
from tools.tidy.source import REPOSITORY, SOURCE, Module, module, modules_under


def ours() -> list[Module]:
    return modules_under(SOURCE / "barnabas", SOURCE)


def test_there_is_something_to_check() -> None:
    assert {"barnabas.config.broker", "barnabas.log.log", "barnabas.server.broker"} <= {each.name for each in ours()}


@pytest.mark.parametrize(
    "check",
    [
        architecture.upward_imports,
        architecture.circles,
        architecture.relative_imports,
        architecture.impure_imports,
        architecture.worldly_calls,
        architecture.unsupervised_tasks,
    ],
)
def test_the_source_obeys(check: Callable[[Iterable[Module]], list[str]]) -> None:
    assert check(ours()) == []


def entry_points() -> list[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        "barnabas.__main__",
        "barnabas.testing.child",  # a process is started with it
        *(target.partition(":")[0] for target in project["scripts"].values()),
        *project["entry-points"]["pytest11"].values(),
        *(f"barnabas.server.handlers.{handler}" for handler in HANDLERS.values()),
        *(f"barnabas.cli.commands.{name}" for name in COMMANDS if name not in SERVING),
    ]


def users(*directories: str) -> list[Module]:
    return [each for directory in directories for each in modules_under(REPOSITORY / directory, REPOSITORY)]


def unused() -> set[str]:
    """The simulation exists for tests, so there tests count as users. What is not committed is not judged."""
    tracked = repository.tracked_files(REPOSITORY)
    judged = [each for each in ours() if tracked is None or REPOSITORY / each.path in tracked]
    for_tests = [each for each in judged if each.name.startswith(("barnabas.simulation", "barnabas.testing"))]
    the_rest = [each for each in judged if each not in for_tests]
    others = [*users("tools", "benchmarks"), *modules_under(SOURCE / "pyspark_barnabas", SOURCE)]
    complaints = architecture.dead_modules(the_rest, [*ours(), *others], entry_points())
    complaints += architecture.dead_modules(for_tests, [*ours(), *users("tests")], entry_points())
    return {complaint.rpartition(" ")[2] for complaint in complaints}


def test_every_module_is_used() -> None:
    assert sorted(unused()) == []


# Each check finds what it is for


def complaints(check: Callable[[Iterable[Module]], list[str]], name: str, text: str) -> list[str]:
    return check([module(name, text)])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("barnabas.log.x", "from barnabas.server.broker import Broker"),
        ("barnabas.log.x", "import barnabas.server.broker"),
        ("barnabas.log.x", "from barnabas import server"),
        ("barnabas.config.x", "def f():\n    from barnabas.log.log import Log"),
        ("barnabas.types", "from barnabas.config.broker import BrokerConfig"),
        ("barnabas.server.x", "from barnabas.cli import main"),
        ("barnabas.unheard_of.x", ""),
    ],
)
def test_upward_imports_are_found(name: str, text: str) -> None:
    assert len(complaints(architecture.upward_imports, name, text)) == 1


def test_downward_imports_are_fine() -> None:
    text = "from barnabas.log.log import Log\nfrom barnabas import __version__\nimport json"
    assert complaints(architecture.upward_imports, "barnabas.server.x", text) == []


def test_circles_are_found() -> None:
    one = module("barnabas.log.x", "from barnabas.metadata import image")
    two = module("barnabas.metadata.y", "from barnabas.controller import topics")
    three = module("barnabas.controller.z", "from barnabas.log import log")
    assert architecture.circles([one, two]) == []
    assert architecture.circles([one, two, three]) == ["controller → log → metadata → controller"]


def test_relative_imports_are_found() -> None:
    assert complaints(architecture.relative_imports, "barnabas.log.x", "from . import y\nfrom ..log import z")
    assert complaints(architecture.relative_imports, "barnabas.log.x", "from barnabas.log import z") == []


def test_event_loops_in_rules_are_found() -> None:
    assert complaints(architecture.impure_imports, "barnabas.controller.x", "import asyncio")
    assert complaints(architecture.impure_imports, "barnabas.log.x", "from asyncio import Future")
    assert complaints(architecture.impure_imports, "barnabas.server.x", "import asyncio") == []


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio\nasyncio.create_task(f())",
        "import asyncio\nasyncio.ensure_future(f())",
        "import asyncio\nasyncio.get_running_loop().create_task(f())",
        "from asyncio import create_task",
        "import asyncio\nasyncio.TaskGroup()",
    ],
)
def test_tasks_that_no_supervisor_owns_are_found(text: str) -> None:
    assert len(complaints(architecture.unsupervised_tasks, "barnabas.server.x", text)) == 1
    assert complaints(architecture.unsupervised_tasks, "barnabas.server.supervisor", text) == []
    assert complaints(architecture.unsupervised_tasks, "barnabas.client.x", text) == []


WORLDLY = [
    "import time",
    "from time import monotonic",
    "import os",
    "import os.path",
    "from os import path",
    "import socket",
    "import pathlib",
    "from threading import Lock",
    "def f():\n    import subprocess",
    "from uuid import uuid4",
    "import uuid\nx = uuid.uuid4()",
    "import uuid as u\nx = u.uuid1",
    "import random\nx = random.random()",
    "import random\nx = random.choice",
    "from random import randint",
    "from random import Random\nx = Random()",
    "import random\nx = random.Random()",
    "import asyncio\nawait_ = asyncio.sleep(1)",
    "from asyncio import sleep",
    "import datetime\nx = datetime.datetime.now()",
    "from datetime import datetime\nx = datetime.now()",
    "x = open('file')",
    "print('hello')",
    "x = eval('1')",
    "from barnabas.runtime.system.disk import SystemDisk",
    "from barnabas.runtime import system",
]
HARMLESS = [
    "from random import Random\ndef f(random: Random) -> float:\n    return random.random()",
    "from random import Random\nx = Random(7)",
    "import asyncio\nx = asyncio.get_running_loop()",
    "class Disk:\n    def open(self) -> None: ...\nDisk().open()",
    "from uuid import UUID\nx = UUID(int=1)",
    "def f(clock):\n    return clock.time.sleep(1)",
    "from barnabas.runtime.interfaces import Disk",
]


@pytest.mark.parametrize("text", WORLDLY)
def test_worldly_calls_are_found(text: str) -> None:
    for name in ("barnabas.log.x", "barnabas.server.x", "barnabas.simulation.x", "barnabas.runtime.memory_disk"):
        assert complaints(architecture.worldly_calls, name, text) != []


@pytest.mark.parametrize("text", WORLDLY)
def test_the_door_and_the_command_line_may_touch_the_world(text: str) -> None:
    for name in ("barnabas.runtime.system.clock", "barnabas.cli.serve", "barnabas.__main__"):
        assert complaints(architecture.worldly_calls, name, text) == []


@pytest.mark.parametrize("text", HARMLESS)
def test_harmless_calls_are_not_complained_about(text: str) -> None:
    assert complaints(architecture.worldly_calls, "barnabas.log.x", text) == []


def test_dead_modules_are_found() -> None:
    lonely = module("barnabas.log.lonely", "from barnabas.log import used")
    used = module("barnabas.log.used", "")
    of_a_name = module("barnabas.log.of_a_name", "")
    package = module("barnabas.log", "from barnabas.log.of_a_name import thing", "barnabas/log/__init__.py")
    everything = [lonely, used, of_a_name, package]
    assert architecture.dead_modules(everything, [], []) == [
        "barnabas/log/lonely.py:1: nothing imports barnabas.log.lonely"
    ]
    assert architecture.dead_modules(everything, [], ["barnabas.log.lonely"]) == []
    assert architecture.dead_modules(everything, [module("tools.x", "import barnabas.log.lonely")], []) == []


def test_a_module_does_not_keep_itself_alive() -> None:
    itself = module("barnabas.log.itself", "from barnabas.log.itself import x\nimport barnabas.log.itself")
    assert len(architecture.dead_modules([itself], [], [])) == 1
