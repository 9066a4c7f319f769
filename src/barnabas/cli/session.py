"""What commands that speak to a cluster share: a client for the time of one command, and words for what failed.

Always holds: the client is closed before the command ends. Does not know: any command.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable
from typing import Any, TypeVar

from barnabas.cli.app import ABSENCES
from barnabas.cli.options import BOOTSTRAP_DEFAULT, Connection
from barnabas.cli.text import CommandFailed, Exit, failed, suggestion
from barnabas.client.admin import Admin, Results
from barnabas.client.errors import KafkaError
from barnabas.client.settings import AdminConfig, ClientConfig
from barnabas.config.properties import read_file
from barnabas.config.validation import ConfigError
from barnabas.runtime.system.event_loop import new_event_loop
from barnabas.types import TopicPartition

# What a client logs it also raises, and then it is said once, in one line.
logging.getLogger("barnabas").addHandler(logging.NullHandler())

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

CLIENT_ID = "barnabas-cli"
COMPLETION_TIMEOUT_MS = 1_000  # a shell waits for the answer
REQUEST_TIMEOUT_MS_MAX = 30_000
START_TIMEOUT_MS_MAX = 5_000  # who mistyped an address should not wait long; a broker that starts needs less


def client_settings(
    connection: Connection, kind: type[ClientConfig], *others: type[ClientConfig], **usual: Any
) -> dict[str, Any]:
    """Of one client: what is usual for the command, unless the file of --command-config says otherwise.

    The file may hold settings for the `others` too, and nothing that no client of the command knows.
    """
    found: dict[str, Any] = {"bootstrap_servers": BOOTSTRAP_DEFAULT, "client_id": CLIENT_ID, **usual}
    file = connection.command_config
    for given in () if file is None else read_file(file.read_text(encoding="utf-8"), str(file)):
        keyword = given.name.replace(".", "_")
        if kind.accepts(keyword):
            found[keyword] = given.text
        elif not any(other.accepts(keyword) for other in others):
            try:
                kind(**{given.name: given.text})  # which says why not, and what may have been meant
            except ConfigError as error:
                raise CommandFailed(f"{given.where}: {error}", Exit.USAGE) from None
    if connection.bootstrap_server is not None:
        found["bootstrap_servers"] = connection.bootstrap_server
    return found


def stated(**options: Any) -> dict[str, Any]:
    """Options that were given: these count for more than a file."""
    return {name: value for name, value in options.items() if value is not None}


def with_admin(connection: Connection, work: Callable[[Admin], Awaitable[T]]) -> T:
    timeout_ms = connection.timeout_ms
    settings = client_settings(
        connection,
        AdminConfig,
        default_api_timeout_ms=timeout_ms,
        request_timeout_ms=min(timeout_ms, REQUEST_TIMEOUT_MS_MAX),
    )

    async def run() -> T:
        admin = Admin(**settings)
        try:
            await admin.cluster.start(min(timeout_ms, START_TIMEOUT_MS_MAX))
            return await work(admin)
        finally:
            await admin.close()

    return asyncio.run(run())


def run_fast(work: Coroutine[Any, Any, T]) -> T:
    """For commands that move many records."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)


def exit_code(results: Iterable["Results[Any, Any]"]) -> int:
    """Says of each thing that failed why, on standard error; how the command ends."""
    errors = [error for each in results for error in each.failed.values()]
    for error in errors:
        failed(str(error))
    if not errors:
        return Exit.DONE
    return Exit.NOT_FOUND if all(error.code.name in ABSENCES for error in errors) else Exit.FAILED


def failures(results: "Results[Any, Any]") -> dict[str, dict[str, str]]:
    """For machines: by the name of each thing, Kafka's code and the words."""
    return {str(key): {"code": error.code.name, "message": error.message} for key, error in results.failed.items()}


async def existing_topics(admin: Admin, names: Iterable[str]) -> None:
    """CommandFailed with the closest name where one does not exist."""
    wanted = list(names)
    known = [each.name for each in await admin.list_topics(internal=True)]
    for name in wanted:
        if name not in known:
            raise missing_topic(name, known)


async def existing_brokers(admin: Admin, ids: Iterable[int]) -> None:
    known = sorted(each.node_id for each in (await admin.describe_cluster()).brokers)
    for node_id in ids:
        if node_id not in known:
            there = ", ".join(str(each) for each in known)
            raise CommandFailed(f"there is no broker {node_id}, but {there}", Exit.NOT_FOUND)


def missing_topic(name: str, known: list[str]) -> CommandFailed:
    hint = suggestion(name, known) or "; barnabas topic list shows which there are"
    return CommandFailed(f"there is no topic {name}{hint}", Exit.NOT_FOUND)


async def all_groups(admin: Admin) -> list[str]:
    listed = (await admin.list_groups()).unwrap()
    return sorted(each.group_id for listings in listed.values() for each in listings)


async def missing_group(admin: Admin, name: str) -> CommandFailed:
    hint = suggestion(name, await all_groups(admin)) or "; barnabas group list shows which there are"
    return CommandFailed(f"there is no group {name}{hint}", Exit.NOT_FOUND)


def settings(given: Iterable[str] | None, option: str = "--config") -> dict[str, str]:
    """Of `name=value` each."""
    found: dict[str, str] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise CommandFailed(f"{option} {text}: a setting is NAME=VALUE", Exit.USAGE)
        found[name.strip()] = value
    return found


def properties(given: Iterable[str] | None) -> dict[str, Any]:
    """Settings of a client by Kafka's names, as the keyword arguments of ours."""
    return {name.replace(".", "_"): value for name, value in settings(given, "a property").items()}


def partitions_of(text: str) -> tuple[str, list[int] | None]:
    """`topic` or `topic:0,1`, as Kafka's tools have it."""
    topic, colon, numbers = text.rpartition(":")
    if not colon:
        return text, None
    try:
        return topic, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise CommandFailed(f"{text}: partitions are numbers, as in {topic}:0,1", Exit.USAGE) from None


async def chosen_partitions(admin: Admin, texts: Iterable[str]) -> list[TopicPartition]:
    """All partitions of each topic, or those named behind a colon."""
    chosen = [partitions_of(text) for text in texts]
    await existing_topics(admin, [topic for topic, _numbers in chosen])
    described = (await admin.describe_topics([topic for topic, _numbers in chosen])).unwrap()
    found: list[TopicPartition] = []
    for topic, numbers in chosen:
        there = [each.partition for each in described[topic].partitions]
        for number in there if numbers is None else numbers:
            if number not in there:
                raise CommandFailed(
                    f"topic {topic} has no partition {number}, but {len(there)} from 0 on", Exit.NOT_FOUND
                )
            found.append(TopicPartition(topic, number))
    return found


def _complete(context: Any, incomplete: str, ask: Callable[[Admin], Awaitable[list[str]]]) -> list[str]:
    """Names for a shell; none where no broker answers at once."""
    given = context.params
    connection = Connection(
        bootstrap_server=given.get("bootstrap_server") or os.environ.get("BARNABAS_BOOTSTRAP"),
        command_config=given.get("command_config"),
        timeout_ms=COMPLETION_TIMEOUT_MS,
    )
    try:
        names = with_admin(connection, ask)
    except (KafkaError, CommandFailed, OSError, ValueError):
        return []
    return [name for name in names if name.startswith(incomplete)]


def complete_topics(ctx: Any, incomplete: str) -> list[str]:
    async def ask(admin: Admin) -> list[str]:
        return [each.name for each in await admin.list_topics()]

    return _complete(ctx, incomplete, ask)


def complete_groups(ctx: Any, incomplete: str) -> list[str]:
    return _complete(ctx, incomplete, all_groups)
