"""`barnabas group`: who reads, how far, and from where on."""

from enum import Enum
from typing import Annotated, Any

import typer

from barnabas.cli import output
from barnabas.cli.app import noun, verb
from barnabas.cli.group_offsets import Reset, lags, new_offsets
from barnabas.cli.options import USUAL_CONNECTION, Connection, Execute, Json
from barnabas.cli.session import (
    all_groups,
    chosen_partitions,
    complete_groups,
    complete_topics,
    exit_code,
    failures,
    missing_group,
    with_admin,
)
from barnabas.cli.text import CommandFailed, Exit, counted
from barnabas.client.admin import Admin, Results
from barnabas.client.admin.groups import GroupDescription, GroupKind
from barnabas.client.offsets import OffsetAndMetadata
from barnabas.errors import ErrorCode
from barnabas.types import TopicPartition


class GroupState(Enum):
    """As Kafka's tool names them."""

    ASSIGNING = "Assigning"
    COMPLETING_REBALANCE = "CompletingRebalance"
    DEAD = "Dead"
    EMPTY = "Empty"
    NOT_READY = "NotReady"
    PREPARING_REBALANCE = "PreparingRebalance"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


app = noun("Lists, describes, resets and deletes groups of consumers.")

Name = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.", autocompletion=complete_groups)]
Names = Annotated[list[str], typer.Argument(metavar="GROUP", help="Names of groups.", autocompletion=complete_groups)]
OptionalNames = Annotated[
    list[str] | None, typer.Argument(metavar="[GROUP]", help="Names; else all.", autocompletion=complete_groups)
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="TOPIC[:0,1]",
        help="A topic, or some of its partitions; may be repeated.",
        autocompletion=complete_topics,
    ),
]


@verb(app, "barnabas group list", "barnabas group list --state Empty --type consumer", name="list")
def list_groups(
    state: Annotated[
        list[GroupState] | None,
        typer.Option("--state", case_sensitive=False, help="Only groups in this state; repeatable."),
    ] = None,
    kind: Annotated[
        list[GroupKind] | None, typer.Option("--type", help="Only groups of this type; repeatable.")
    ] = None,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Lists groups; in a pipe, their names alone."""

    async def work(admin: Admin) -> list[Any]:
        listed = (await admin.list_groups(states=[each.value for each in state or ()], kinds=kind or ())).unwrap()
        return sorted((each for found in listed.values() for each in found), key=lambda each: each.group_id)

    groups = with_admin(connection, work)
    if json:
        shown = [{**output.plain(each), "kind": each.kind.value} for each in groups]
        output.document({"groups": shown})
    elif output.on_terminal():
        rows = ((each.group_id, each.kind.value, each.protocol_type, each.state) for each in groups)
        output.table(("group", "type", "protocol", "state"), rows, empty="there are no groups yet")
    else:
        for each in groups:
            print(each.group_id)
    return Exit.DONE


@verb(
    app,
    "barnabas group describe billing",
    "barnabas group describe billing --members",
    "barnabas group describe --json",
)
def describe(
    names: OptionalNames = None,
    members: Annotated[bool, typer.Option("--members", help="Show members and what each reads.")] = False,
    state: Annotated[bool, typer.Option("--state", help="Show only the state of each group.")] = False,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Describes groups: how far each has read, and who."""

    async def work(admin: Admin) -> list[dict[str, Any]]:
        wanted = names or await all_groups(admin)
        described = await admin.describe_groups(wanted)
        for name, error in described.failed.items():
            raise await missing_group(admin, name) if error.code == ErrorCode.GROUP_ID_NOT_FOUND else error
        return [await _facts(admin, described.done[name]) for name in dict.fromkeys(wanted)]

    groups = with_admin(connection, work)
    if json:
        output.document({"groups": groups})
        return Exit.DONE
    for number, group in enumerate(groups):
        if number:
            print()
        _show(group, members=members, state=state)
    return Exit.DONE


async def _facts(admin: Admin, group: GroupDescription) -> dict[str, Any]:
    facts: dict[str, Any] = {**output.plain(group), "kind": group.kind.value}
    has_offsets = group.kind in (GroupKind.CLASSIC, GroupKind.CONSUMER)
    return {**facts, "offsets": await lags(admin, group) if has_offsets else []}


def _show(group: dict[str, Any], *, members: bool, state: bool) -> None:
    count = counted(len(group["members"]), "member")
    print(
        f"{group['group_id']}: {group['kind']} group, {group['state']}, {count}, "
        f"assignor {group['assignor'] or 'none'}, coordinator {group['coordinator']}"
    )
    if state:
        return
    if members:
        names = ("member_id", "instance_id", "client_id", "host", "epoch")
        rows = [
            [*(each[name] for name in names), " ".join(_words(part) for part in each["assignment"])]
            for each in group["members"]
        ]
        output.table(("member", "instance", "client", "host", "epoch", "assignment"), rows)
        return
    columns = ("topic", "partition", "current_offset", "end_offset", "lag", "member_id", "host", "client_id")
    titles = [name.replace("_id", "").replace("_", " ") for name in columns]
    output.table(titles, ([each[name] for name in columns] for each in group["offsets"]), empty="no offsets committed")


def _words(partition: dict[str, Any]) -> str:
    return f"{partition['topic']}-{partition['partition']}"


@verb(
    app,
    "barnabas group reset-offsets billing --topic orders --to-earliest",
    "barnabas group reset-offsets billing --all-topics --to-datetime 2026-01-31T12:00:00 --execute",
    "barnabas group reset-offsets billing --topic orders:0,1 --shift-by -100 --execute",
    "barnabas group reset-offsets billing --topic orders --by-duration 2h --execute",
    name="reset-offsets",
)
def reset_offsets(
    name: Name,
    topic: Topics = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="All that the group has offsets of.")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the last record.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To where it is.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", metavar="N", help="To this offset.")] = None,
    shift_by: Annotated[int | None, typer.Option("--shift-by", metavar="N", help="By so many, perhaps back.")] = None,
    to_datetime: Annotated[
        str | None, typer.Option("--to-datetime", metavar="MOMENT", help="To the first record since then.")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="DURATION", help="To the first record of the last 2h, PT2H…")
    ] = None,
    execute: Execute = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show it, as without --execute.")] = False,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Sets from where on a group reads.

    Shows what it would do; --execute does it. The group must have no members meanwhile. Offsets that do not exist
    become the nearest one that does.
    """
    reset = Reset.of(
        earliest=to_earliest,
        latest=to_latest,
        current=to_current,
        offset=to_offset,
        shift=shift_by,
        moment=to_datetime,
        duration=by_duration,
    )
    if execute and dry_run:
        raise CommandFailed("--execute and --dry-run exclude each other: leave one out", Exit.USAGE)
    if bool(topic) == all_topics:
        raise CommandFailed("say which: --topic TOPIC, or --all-topics", Exit.USAGE)

    async def work(admin: Admin) -> tuple[list[dict[str, Any]], Results[TopicPartition, None]]:
        await _idle(admin, name)
        committed = await admin.list_consumer_group_offsets(name)
        partitions = list(committed) if all_topics else await chosen_partitions(admin, topic or ())
        if not partitions:
            raise CommandFailed(f"group {name} has no offsets; name a --topic", Exit.NOT_FOUND)
        rows = await new_offsets(admin, reset, partitions, committed)
        done: Results[TopicPartition, None] = Results()
        if execute:
            wanted = {TopicPartition(row["topic"], row["partition"]): row["new_offset"] for row in rows}
            changes = {key: OffsetAndMetadata(offset) for key, offset in wanted.items()}
            done = await admin.alter_consumer_group_offsets(name, changes)
        return rows, done

    rows, done = with_admin(connection, work)
    if json:
        output.document({"group": name, "executed": execute, "offsets": rows, "failed": failures(done)})
    else:
        _show_moves(rows, executed=execute)
    return exit_code([done])


def _show_moves(rows: list[dict[str, Any]], *, executed: bool) -> None:
    columns = ("topic", "partition", "current_offset", "new_offset")
    output.table([each.replace("_", " ") for each in columns], ([row[each] for each in columns] for row in rows))
    if not executed:
        output.note("nothing was changed; --execute does it")


async def _idle(admin: Admin, name: str) -> None:
    """A group that does not exist yet may be given offsets; one with members may not."""
    described = await admin.describe_groups([name])
    for error in described.failed.values():
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise error
    for group in described.done.values():
        if group.members:
            count = counted(len(group.members), "member")
            raise CommandFailed(f"group {name} is {group.state} with {count}; stop them first")


@verb(app, "barnabas group delete billing", "barnabas group delete billing audit")
def delete(
    names: Names,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Deletes groups with their offsets; they must have no members."""

    async def work(admin: Admin) -> Results[str, None]:
        results = await admin.delete_groups(names)
        for name, error in results.failed.items():
            if error.code == ErrorCode.GROUP_ID_NOT_FOUND and len(names) == 1:
                raise await missing_group(admin, name)
        return results

    results = with_admin(connection, work)
    if json:
        output.document({"deleted": list(results.done), "failed": failures(results)})
    else:
        for name in results.done:
            print(f"deleted: {name}")
    return exit_code([results])


@verb(app, "barnabas group delete-offsets billing --topic orders", name="delete-offsets")
def delete_offsets(
    name: Name,
    topic: Topics = None,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Forgets how far a group has read a topic."""
    if not topic:
        raise CommandFailed("say which: --topic TOPIC", Exit.USAGE)

    async def work(admin: Admin) -> Results[TopicPartition, None]:
        partitions = await chosen_partitions(admin, topic)
        committed = await admin.list_consumer_group_offsets(name)
        if not committed:
            raise await missing_group(admin, name)
        return await admin.delete_consumer_group_offsets(name, [each for each in partitions if each in committed])

    results = with_admin(connection, work)
    if json:
        output.document({"group": name, "deleted": list(results.done), "failed": failures(results)})
    else:
        for partition in results.done:
            print(f"forgotten: {partition}")
    return exit_code([results])


@verb(
    app,
    "barnabas group remove-members billing",
    "barnabas group remove-members billing --instance-id worker-1",
    name="remove-members",
)
def remove_members(
    name: Name,
    instance_id: Annotated[
        list[str] | None, typer.Option("--instance-id", metavar="ID", help="Only this one; may be repeated.")
    ] = None,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Removes members from a classic group: all, or those named."""

    async def work(admin: Admin) -> Results[str, None]:
        described = await admin.describe_groups([name])
        if name in described.failed and described.failed[name].code == ErrorCode.GROUP_ID_NOT_FOUND:
            raise await missing_group(admin, name)
        return await admin.remove_members_from_consumer_group(
            name, instance_ids=instance_id or (), reason="removed by barnabas group remove-members"
        )

    results = with_admin(connection, work)
    if json:
        output.document({"group": name, "removed": list(results.done), "failed": failures(results)})
    else:
        for member in results.done:
            print(f"removed: {member}")
    return exit_code([results])
