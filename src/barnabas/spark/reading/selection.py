"""Which partitions a read is about: subscribe, subscribePattern or assign.

Always holds: exactly one of them is given, and a topic or partition that is named must exist. A pattern matches whole
names and leaves out Kafka's internal topics. Does not know: where topics come from.
"""

import re
from collections.abc import Collection

from barnabas.config.validation import ConfigError
from barnabas.spark.options import Options
from barnabas.types import TopicPartition

WAYS = ("subscribe", "subscribePattern", "assign")
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"})


class NoSuchTopic(Exception):
    """A topic or partition that was named and is not there."""


def check(options: Options) -> None:
    given = [name for name in WAYS if name in options.given]
    if len(given) != 1:
        found = f"{' and '.join(given)} are given" if given else "none is"
        raise ConfigError(f"exactly one of {', '.join(WAYS)} says what to read; {found}")
    if given == ["subscribe"] and not (options["subscribe"] and all(options["subscribe"])):
        raise ConfigError("subscribe names no topic")
    pattern(options)


def pattern(options: Options) -> re.Pattern[str] | None:
    if options["subscribePattern"] is None:
        return None
    try:
        return re.compile(options["subscribePattern"])
    except re.error as problem:
        raise ConfigError(
            f"subscribePattern: {options['subscribePattern']!r} is no regular expression: {problem}"
        ) from None


def named_topics(options: Options) -> list[str] | None:
    """The topics that are named; None where a pattern is given."""
    if options["subscribePattern"] is not None:
        return None
    return list(dict.fromkeys(options["subscribe"] or options["assign"]))


def present(options: Options, there: Collection[TopicPartition]) -> list[TopicPartition]:
    """Those of the partitions that are meant, in order; what is named and not there is left out."""
    expression = pattern(options)
    if expression is not None:
        return sorted(
            each for each in there if each.topic not in INTERNAL_TOPICS and expression.fullmatch(each.topic) is not None
        )
    if options["assign"] is None:
        return sorted(each for each in there if each.topic in options["subscribe"])
    wanted = (TopicPartition(topic, number) for topic, numbers in options["assign"].items() for number in numbers)
    return sorted(each for each in wanted if each in there)


def chosen(options: Options, there: Collection[TopicPartition]) -> list[TopicPartition]:
    """As `present`; NoSuchTopic where something that is named is not there."""
    topics = {each.topic for each in there}
    for topic in named_topics(options) or ():
        if topic not in topics:
            raise NoSuchTopic(f"topic {topic} does not exist{_closest(topic, topics)}")
    for topic, numbers in (options["assign"] or {}).items():
        count = sum(1 for each in there if each.topic == topic)
        for number in numbers:
            if TopicPartition(topic, number) not in there:
                raise NoSuchTopic(f"partition {number} of topic {topic} does not exist; it has {count}")
    return present(options, there)


def _closest(topic: str, topics: Collection[str]) -> str:
    from difflib import get_close_matches

    found = get_close_matches(topic, sorted(topics), n=1)
    return f"; did you mean {found[0]}?" if found else ""
