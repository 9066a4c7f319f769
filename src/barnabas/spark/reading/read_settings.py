"""The client settings of a read, given as `kafka.*`: those of every client, and what a consumer has beyond them.

Only committed records are read by default, other than by Kafka's consumer: a source cannot know whether its rows go to
an exactly-once sink, and what was aborted must not reach one.
"""

from collections.abc import Mapping

from barnabas.client.settings import ClientConfig
from barnabas.config.setting import boolean, integer, string
from barnabas.config.validation import ConfigError, at_least, one_of
from barnabas.protocol import special_numbers
from barnabas.spark.options import client_config

READ_COMMITTED = "read_committed"


class ReadConfig(ClientConfig):
    isolation_level: str = string(
        "isolation.level",
        READ_COMMITTED,
        one_of("read_uncommitted", READ_COMMITTED),
        help="Whether records of open and aborted transactions are read.",
    )
    fetch_max_bytes: int = integer(
        "fetch.max.bytes", 4 << 20, at_least(1), help="Bytes that one fetch asks for; a task holds a few of that size."
    )
    fetch_max_wait_ms: int = integer(
        "fetch.max.wait.ms", 500, at_least(0), help="How long a broker may wait for records that are not there yet."
    )
    default_api_timeout_ms: int = integer(
        "default.api.timeout.ms", 60_000, at_least(1), help="How long a call may take, with all its repetitions."
    )
    check_crcs: bool = boolean("check.crcs", True, help="Whether the checksums of batches are compared; always true.")

    def _check(self) -> None:
        if not self.check_crcs:
            raise ConfigError("check.crcs: false is not allowed; what a broker sends is always checked")

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == READ_COMMITTED

    @property
    def isolation(self) -> int:
        """As requests say it."""
        return special_numbers.READ_COMMITTED if self.read_committed else special_numbers.READ_UNCOMMITTED


def read_config(kafka: Mapping[str, str]) -> ReadConfig:
    return client_config(ReadConfig, kafka)
