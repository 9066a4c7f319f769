"""Which names a topic may have.

Always holds: a name that passes is safe as part of a directory's name.
"""

import re

NAME_LENGTH_MAX = 249  # a directory is named <topic>-<partition>, and file systems stop at 255 bytes
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = bytes(15) + b"\x01"  # reserved: the metadata log has no TopicRecord of its own
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state")

_legal = re.compile(r"[a-zA-Z0-9._-]+").fullmatch


def fault(name: str) -> str | None:
    """What is wrong with the name, as an ending of the sentence «The topic name …»; None where nothing is."""
    if not name:
        return "is empty"
    if name in (".", ".."):
        return f"{name!r} means a directory"
    if len(name) > NAME_LENGTH_MAX:
        return f"has {len(name)} characters, at most {NAME_LENGTH_MAX} are allowed"
    if _legal(name) is None:
        return f"{name!r} holds something else than ASCII letters, digits, '.', '_' and '-'"
    return None


def is_valid(name: str) -> bool:
    return fault(name) is None


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def unify_collisions(name: str) -> str | None:
    """What metrics make of the name: they write '_' for '.', so that a.b and a_b would be one. None: cannot collide."""
    if "." in name or "_" in name:
        return name.replace(".", "_")
    return None
