"""Which way imports point, and which calls only the door to the world may make.

The tiers are those of ARCHITECTURE.md. Packages of one tier may use each other, but never in a circle.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tools.tidy.source import Module, imports

PACKAGE = "barnabas"
TIERS: Mapping[str, int] = {
    **dict.fromkeys(("types", "errors"), 0),
    **dict.fromkeys(("config", "protocol", "runtime"), 1),
    **dict.fromkeys(("log", "consensus", "metadata", "controller", "replication"), 2),
    **dict.fromkeys(("coordination", "groups", "transactions"), 2),
    **dict.fromkeys(("server", "client", "simulation"), 3),
    **dict.fromkeys(("cli", "console", "spark", "testing"), 4),
    "__main__": 5,
}
# Rules: no event loop, no threads, no time of their own.
PURE = frozenset(
    {"config", "protocol", "log", "consensus", "metadata", "controller", "replication"}
    | {"coordination", "groups", "transactions"}
)
IMPURE_MODULES = frozenset({"asyncio", "concurrent", "contextvars", "queue", "sched", "uvloop"})

THE_WORLD = f"{PACKAGE}.runtime.system"
# The command line is a program: it may read files and set up the real world; so may what runs inside Spark's
# processes. Nothing below them may, but for where a client takes the world that it runs in and its certificates, and
# what runs clients in a thread.
MAY_TOUCH_THE_WORLD = (
    THE_WORLD,
    *(f"{PACKAGE}.{name}" for name in ("cli", "spark", "__main__", "testing")),
    *(f"{PACKAGE}.client.{name}" for name in ("world", "security_tls", "synchronous")),
    f"{PACKAGE}.simulation.threads",  # threads that take turns, in an order that the seed decides
)
WORLDLY_MODULES = frozenset(
    [
        "time",
        "os",
        "secrets",
        "socket",
        "select",
        "selectors",
        "signal",
        "shutil",
        "tempfile",
        "glob",
        "pathlib",
        "fcntl",
        "resource",
        "subprocess",
        "threading",
        "multiprocessing",
        "urllib",
        "http",
    ]
)
WORLDLY_NAMES = frozenset(
    {
        "asyncio.sleep",
        "asyncio.open_connection",
        "asyncio.start_server",
        "asyncio.to_thread",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.datetime.today",
        "datetime.date.today",
        "random.SystemRandom",
        "uuid.uuid1",
        "uuid.uuid4",
    }
)
SUPERVISOR = f"{PACKAGE}.server.supervisor"
TASK_STARTERS = frozenset({"create_task", "ensure_future", "TaskGroup"})
RANDOM_TYPE = "random.Random"  # a source of chance that somebody else has made; the only thing to take from `random`
WORLDLY_BUILTINS = frozenset({"open", "input", "print", "breakpoint", "eval", "exec"})


def part(name: str) -> str:
    """The package or module right below barnabas."""
    return name.split(".")[1] if "." in name else ""


def upward_imports(modules: Iterable[Module]) -> list[str]:
    complaints: list[str] = []
    for module in modules:
        tier = TIERS.get(part(module.name), -1)
        if part(module.name) not in TIERS and module.name != PACKAGE:
            complaints.append(module.complaint(1, f"{module.name} stands in no tier"))
        for found in imports(module):
            target = part(found.name) if found.name.startswith(f"{PACKAGE}.") else ""
            if TIERS.get(target, -1) > tier:
                complaints.append(
                    module.complaint(found.line, f"{part(module.name)} imports {found.name}, which is above")
                )
    return complaints


def circles(modules: Iterable[Module]) -> list[str]:
    """Packages that need each other. Each circle is told once."""
    needs: dict[str, set[str]] = {}
    for module in modules:
        wanted = {part(found.name) for found in imports(module) if found.name.startswith(f"{PACKAGE}.")}
        needs.setdefault(part(module.name), set()).update(wanted & set(TIERS) - {part(module.name)})
    complaints: list[str] = []
    done: set[str] = set()

    def visit(package: str, path: list[str]) -> None:
        if package in path:
            complaints.append(" → ".join([*path[path.index(package) :], package]))
        elif package not in done:
            for wanted in sorted(needs.get(package, ())):
                visit(wanted, [*path, package])
            done.add(package)

    for package in sorted(needs):
        visit(package, [])
    return complaints


def relative_imports(modules: Iterable[Module]) -> list[str]:
    return [
        module.complaint(node.lineno, "relative import")
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]


def impure_imports(modules: Iterable[Module]) -> list[str]:
    """Event loops within the rules."""
    return [
        module.complaint(found.line, f"{part(module.name)} is pure and imports {found.name}")
        for module in modules
        if part(module.name) in PURE
        for found in imports(module)
        if found.name.split(".")[0] in IMPURE_MODULES
    ]


def worldly_calls(modules: Iterable[Module]) -> list[str]:
    """Clock, disk, network and chance used elsewhere than through `runtime`."""
    complaints: list[str] = []
    for module in modules:
        if not _may_touch_the_world(module.name):
            complaints += _worldly_imports(module) + _worldly_uses(module)
    return complaints


def unsupervised_tasks(modules: Iterable[Module]) -> list[str]:
    """Tasks of a broker that its supervisor does not own: such a task may fail without a trace."""
    return [
        module.complaint(line, f"{name} belongs to server.supervisor")
        for module in modules
        if part(module.name) == "server" and module.name != SUPERVISOR
        for line, name in _names_used(module)
        if name in TASK_STARTERS
    ]


def _names_used(module: Module) -> Iterator[tuple[int, str]]:
    """Attributes and imported names, with their lines."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)


def _may_touch_the_world(name: str) -> bool:
    return any(name == allowed or name.startswith(f"{allowed}.") for allowed in MAY_TOUCH_THE_WORLD)


def _worldly_imports(module: Module) -> list[str]:
    complaints: list[str] = []
    for found in imports(module):
        top = found.name.split(".")[0]
        if (
            top in WORLDLY_MODULES
            or found.name in WORLDLY_NAMES
            or (top == "random" and found.name not in ("random", RANDOM_TYPE))
            or found.name == THE_WORLD
            or found.name.startswith(f"{THE_WORLD}.")
        ):
            complaints.append(module.complaint(found.line, f"{found.name} belongs to runtime.system"))
    return complaints


def _worldly_uses(module: Module) -> list[str]:
    """Uses of what a harmless import also brings in, and builtins."""
    complaints: list[str] = []
    aliases = _aliases(module)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORLDLY_BUILTINS:
            complaints.append(module.complaint(node.lineno, f"{node.func.id}() belongs to runtime.system"))
        elif isinstance(node, ast.Call) and _full_name(node.func, aliases) == RANDOM_TYPE and not node.args:
            complaints.append(module.complaint(node.lineno, "Random() without a seed belongs to runtime.system"))
        elif isinstance(node, ast.Attribute):
            name = _full_name(node, aliases)
            if name in WORLDLY_NAMES or (name.startswith("random.") and name != RANDOM_TYPE):
                complaints.append(module.complaint(node.lineno, f"{name} belongs to runtime.system"))
    return complaints


def _aliases(module: Module) -> dict[str, str]:
    """What each imported name means."""
    meaning: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                meaning[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                meaning[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return meaning


def _full_name(node: ast.expr, aliases: Mapping[str, str]) -> str:
    """`datetime.datetime.now` for any spelling of it; empty where the name is not an imported one."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in aliases:
        return ""
    return ".".join([aliases[node.id], *reversed(parts)])


def dead_modules(modules: Sequence[Module], users: Iterable[Module], entry_points: Iterable[str]) -> list[str]:
    """Modules that no other module imports and that are no entry point. `users` may import, but are not checked."""
    used = set(entry_points)
    for module in (*modules, *users):
        for found in imports(module):
            used.update({found.name, found.name.rpartition(".")[0]} - {module.name})
    return [
        module.complaint(1, f"nothing imports {module.name}")
        for module in modules
        if module.name not in used and not module.path.endswith("__init__.py") and not module.is_generated
    ]
