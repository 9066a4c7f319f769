"""New identifiers for topics, brokers, directories and clusters: random UUIDs that Kafka's tools take too."""

from random import Random

from barnabas.metadata.image import DIRECTORIES_RESERVED_MAX
from barnabas.types import Uuid, uuid_text

_RESERVED_MAX = DIRECTORIES_RESERVED_MAX.to_bytes(16, "big")


def new_uuid(random: Random) -> Uuid:
    """Version 4. Its text never begins with a dash, which a command line would take for an option."""
    while True:
        raw = bytearray(random.randbytes(16))
        raw[6] = (raw[6] & 0x0F) | 0x40
        raw[8] = (raw[8] & 0x3F) | 0x80
        uuid = bytes(raw)
        if uuid > _RESERVED_MAX and not uuid_text(uuid).startswith("-"):
            return uuid
