"""What happens to a setting in a properties file, or on the command line, that Barnabas does not implement.

    refused   ignoring it could weaken security or durability, or its name is a near miss of a known one
    warned    everything else: the node starts, as Apache Kafka does, and the log says that the setting has no effect

A near miss is a typing error away from a known name, or has `log.` before a name that has no such prefix, or lacks it.
The name of a topic setting is one only if it speaks of durability (`flush.messages`); any other is a mistake that
Kafka's files may hold, and the warning names the broker setting. With `lenient` a near miss is a warning as well. Other
names that speak of security or durability are refused even then: nothing here can tell what their author relies on.
Does not know: the settings that are stored while brokers run. Kafka stores any name there, and so does Barnabas.
"""

from typing import Final, NamedTuple

from barnabas.config import inapplicable
from barnabas.config.broker import OLDER_NAMES, BrokerConfig
from barnabas.config.topic import TopicConfig

EDITS_MAX: Final = 2  # letters added, left out, replaced or swapped in a typing error
_PREFIX: Final = "log."  # of most defaults of topics, but not of all
SHORT_NAME: Final = 8  # one edit of so short a name is as much as two of a longer one

# Parts of names. A name with one of them is refused if nothing is known of it.
_WORDS: Final = {
    "security": """
        acl acls audit auth authentication authorization authorizer certificate credential credentials encryption jaas
        kerberos keystore oauth oauthbearer password principal sasl scram secret security ssl tls token truststore
    """,
    "durability": "durability durable flush fsync insync isr sync unclean",
}
_SUBJECTS: Final = {word: subject for subject, words in _WORDS.items() for word in words.split()}


class Verdict(NamedTuple):
    is_refused: bool
    words: str  # after the setting's name


def judge(name: str, text: str, *, lenient: bool) -> Verdict:
    """For a name that is no setting of `BrokerConfig`."""
    danger = inapplicable.danger(name, text)
    if danger is not None:
        return Verdict(True, f"is refused: {danger}")
    reason = inapplicable.reason(name)
    if reason is not None:
        return Verdict(False, f"has no effect: {reason}")
    subject = next((_SUBJECTS[word] for word in _plain(name).split(".") if word in _SUBJECTS), None)
    if name in TopicConfig.SETTINGS and subject is None:
        return Verdict(False, f"is a setting of topics and has no effect on a broker{_default_of(name)}")
    meant = near_miss(name)
    if meant is not None:
        effect = " and has no effect" if lenient else ""
        return Verdict(not lenient, f"is not a broker setting{effect}; did you mean {meant}?")
    if subject is not None:
        return Verdict(True, f"is refused: it is unknown and may be about {subject}; remove it")
    return Verdict(False, f"is not a broker setting and has no effect{_resembling(name)}")


def near_miss(name: str) -> str | None:
    """The known name that was meant, where the given one is so close to it that it can only be a mistake."""
    topic = TopicConfig.SETTINGS.get(name)
    if topic is not None:
        return topic.synonyms[0].name if topic.synonyms else None
    plain = _plain(name)
    prefixed = plain.removeprefix(_PREFIX) if plain.startswith(_PREFIX) else _PREFIX + plain
    if prefixed in BrokerConfig.SETTINGS:
        return prefixed
    edits_max = EDITS_MAX if len(plain) > SHORT_NAME else 1
    found = [(edits(plain, known, edits_max), known) for known in _known_names()]
    fewest, closest = min(found)
    return closest if fewest <= edits_max else None


def _default_of(topic_setting: str) -> str:
    synonyms = TopicConfig.SETTINGS[topic_setting].synonyms
    return f"; {synonyms[0].name} is the default for topics" if synonyms else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", ".").replace("-", ".")


def edits(one: str, other: str, most: int) -> int:
    """Letters to add, leave out, replace or swap with their neighbour; `most + 1` where more are needed."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        earlier, before, row = before, row, [i]
        for j, wanted in enumerate(other, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return min(row[-1], most + 1)


def _resembling(name: str) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name, _known_names(), n=1)
    return f"; {found[0]} is one" if found else ""


def _known_names() -> tuple[str, ...]:
    return (*BrokerConfig.SETTINGS, *OLDER_NAMES, *inapplicable.REASONS)
