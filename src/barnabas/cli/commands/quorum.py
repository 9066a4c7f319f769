"""`barnabas quorum`: who votes on the metadata."""

import time
from typing import Annotated, Any

import typer

from barnabas.cli import output
from barnabas.cli.app import noun, verb
from barnabas.cli.options import USUAL_CONNECTION, Connection, Json
from barnabas.cli.session import with_admin
from barnabas.cli.text import CommandFailed, Exit
from barnabas.client.admin import Admin
from barnabas.client.admin.cluster import QuorumDescription, QuorumReplica
from barnabas.config.endpoints import ENDPOINTS
from barnabas.types import ZERO_UUID, Uuid, uuid_from_text

app = noun("Describes the quorum of controllers, and changes its voters.")

VoterId = Annotated[int, typer.Argument(metavar="NODE", min=0, help="Number of the node.")]


@verb(app, "barnabas quorum describe", "barnabas quorum describe --json")
def describe(
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Describes who leads, who votes and who follows, and how far each is."""

    async def work(admin: Admin) -> QuorumDescription:
        return await admin.describe_metadata_quorum()

    quorum = with_admin(connection, work)
    now_ms = int(time.time() * 1000)
    end = max((each.log_end_offset for each in quorum.voters), default=0)
    rows = [
        _row(each, role, end, now_ms)
        for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers))
        for each in replicas
    ]
    for row in rows:
        row["role"] = "leader" if row["node_id"] == quorum.leader_id else row["role"]
    if json:
        facts = {"leader_id": quorum.leader_id, "leader_epoch": quorum.leader_epoch}
        output.document({**facts, "high_watermark": quorum.high_watermark, "replicas": rows})
        return Exit.DONE
    print(f"leader {quorum.leader_id}, epoch {quorum.leader_epoch}, high watermark {quorum.high_watermark}")
    columns = ("node_id", "role", "directory_id", "log_end_offset", "lag", "ms_behind")
    output.table([each.replace("_", " ") for each in columns], ([row[each] for each in columns] for row in rows))
    return Exit.DONE


def _row(replica: QuorumReplica, role: str, end: int, now_ms: int) -> dict[str, Any]:
    caught_up_ms = replica.last_caught_up_timestamp_ms
    return {
        "node_id": replica.replica_id,
        "role": role,
        "directory_id": replica.directory_id,
        "log_end_offset": replica.log_end_offset,
        "lag": max(end - replica.log_end_offset, 0),
        "ms_behind": None if caught_up_ms is None else max(now_ms - caught_up_ms, 0),
    }


@verb(
    app,
    "barnabas quorum add-voter 4 --directory-id 9N6y3XqLS7WUnw5H6YHqgg --endpoint CONTROLLER://host4:9093",
    name="add-voter",
)
def add_voter(
    node: VoterId,
    directory_id: Annotated[
        str, typer.Option("--directory-id", metavar="ID", help="directory.id in its meta.properties.")
    ],
    endpoint: Annotated[
        list[str], typer.Option("--endpoint", metavar="NAME://HOST:PORT", help="Its controller listener; repeatable.")
    ],
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Makes a controller that follows the quorum a voter."""
    endpoints = [_endpoint(text) for text in endpoint]
    directory = _directory(directory_id)

    async def work(admin: Admin) -> None:
        await admin.add_raft_voter(node, directory, endpoints)

    with_admin(connection, work)
    _say(json, "added", node)
    return Exit.DONE


@verb(app, "barnabas quorum remove-voter 4 --directory-id 9N6y3XqLS7WUnw5H6YHqgg", name="remove-voter")
def remove_voter(
    node: VoterId,
    directory_id: Annotated[
        str | None,
        typer.Option("--directory-id", metavar="ID", help="Its directory; else the one the quorum knows."),
    ] = None,
    connection: Connection = USUAL_CONNECTION,
    json: Json = False,
) -> int:
    """Takes the vote from a controller."""
    given = None if directory_id is None else _directory(directory_id)

    async def work(admin: Admin) -> None:
        directory = given
        if directory is None:
            quorum = await admin.describe_metadata_quorum()
            known = [each.directory_id for each in quorum.voters if each.replica_id == node]
            if not known:
                voters = ", ".join(str(each.replica_id) for each in quorum.voters)
                raise CommandFailed(f"node {node} does not vote; voters are {voters}", Exit.NOT_FOUND)
            directory = ZERO_UUID if known[0] is None else uuid_from_text(known[0])
        await admin.remove_raft_voter(node, directory)

    with_admin(connection, work)
    _say(json, "removed", node)
    return Exit.DONE


def _say(json: bool, done: str, node: int) -> None:
    if json:
        output.document({"node_id": node, done: True})
    else:
        print(f"{done}: voter {node}")


def _directory(text: str) -> Uuid:
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise CommandFailed(f"--directory-id: {error}", Exit.USAGE) from None


def _endpoint(text: str) -> tuple[str, str, int]:
    try:
        (parsed,) = ENDPOINTS.decode((text,))
    except ValueError as error:
        raise CommandFailed(f"--endpoint {text}: {error}", Exit.USAGE) from None
    return parsed.listener_name, parsed.host, parsed.port
