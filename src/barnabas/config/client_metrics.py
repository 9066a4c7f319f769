"""The settings of a subscription to client metrics (KIP-714), as Kafka 4.3 has them.

They are stored and shown. Clients are never asked for metrics, as by a Kafka whose metrics reporters take none.
"""

from collections.abc import Mapping

from barnabas.config.setting import Config, Notation, integer, names
from barnabas.config.validation import between

MATCH_NAMES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def _decode_match(texts: tuple[str, ...]) -> tuple[str, ...]:
    import re

    for text in texts:
        name, equals, pattern = text.partition("=")
        if not equals or "=" in pattern or name.strip() not in MATCH_NAMES:
            raise ValueError(f"{text!r} must be one of {', '.join(MATCH_NAMES)}, a = and a regular expression")
        try:
            re.compile(pattern.strip())
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
    return texts


class ClientMetricsConfig(Config):
    interval_ms: int = integer(
        "interval.ms", 300_000, between(100, 3_600_000), help="How often a matching client sends its metrics."
    )
    match: tuple[str, ...] = names(
        "match",
        (),
        notation=Notation(_decode_match, ",".join),
        help="Which clients it is about, as name=pattern pairs; without any, all of them.",
    )
    metrics: tuple[str, ...] = names(
        "metrics", (), help="Prefixes of the names of the metrics that are sent; * for all of them."
    )

    def __init__(self, overrides: Mapping[str, str]) -> None:
        self._fill(overrides, lambda setting: setting.default, "client metrics")
