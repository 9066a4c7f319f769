"""Writes docs/configuration.md from the settings themselves: `python -m tools.configuration_reference`.

The page is committed, and a test says that it is current.
"""

import sys

from barnabas.config import inapplicable
from barnabas.config.broker import BrokerConfig
from barnabas.config.client_metrics import ClientMetricsConfig
from barnabas.config.group import GroupConfig
from barnabas.config.setting import Setting
from barnabas.config.topic import TopicConfig
from tools.pages import DOCS, table

PAGE = DOCS / "configuration.md"
HEADER = """# Settings

*Written by `make generate` from the settings in the code; a test says that it is current.*

Names, types, ranges and defaults are Apache Kafka 4.3's, but for the defaults of `node.id`, `process.roles`,
`controller.listener.names` and `log.dir`: a node of Barnabas can start from nothing. A broker takes its settings from
a properties file (`barnabas broker FILE`) or from the command line (`--config name=value`). A setting that changes
*cluster-wide* can be set while brokers run, for all of them or for one, and counts at once; one that is *read-only*
is read at start. Topics and groups take every setting at any time.

### Names that are not in these tables
Kafka logs a warning about a setting that it does not know, and starts. So does Barnabas, except where that would be
dangerous or is surely a mistake:

| the setting | what happens |
|---|---|
| ignoring it could weaken security or durability (1) | the node refuses to start |
| its name is a near miss of a known one (2) | the node refuses to start; with `--lenient` it warns and starts |
| Kafka knows it, but it [has no effect](#settings-without-effect) here | a warning with the reason |
| it is a [topic setting](#topics) | a warning that names the broker setting with the default for topics |
| any other name | a warning |

1. One of [these](#refused), or an unknown name with a word such as `ssl`, `acl`, `password`, `flush` or `isr`.
2. A typing error away from it, or with `log.` too many or too few: `log.min.insync.replicas`. The complaint names the
   setting that was meant. Of topic settings, `flush.messages` and `flush.ms` are judged so: they are about durability.

Each complaint names the file and the line. All complaints are shown at once. Settings that are stored while brokers run
(IncrementalAlterConfigs) are not judged so: as in Kafka, a name that no broker knows is stored and shown, and each
broker logs a warning.
"""


def page() -> str:
    broker = [setting for setting in BrokerConfig.SETTINGS.values() if not setting.internal]
    topic = [setting for setting in TopicConfig.SETTINGS.values() if not setting.internal]
    return "\n".join(
        [
            HEADER,
            "## Brokers",
            *table(("name", "type", "default", "allowed", "changes", "what it does"), map(_broker_row, broker)),
            "## Topics",
            "Where a topic sets nothing itself, it takes what its broker has, of several names the first set.\n",
            *table(("name", "type", "default", "allowed", "taken from", "what it does"), map(_inheriting_row, topic)),
            "## Groups",
            *table(
                ("name", "type", "default", "allowed", "taken from", "what it does"),
                map(_inheriting_row, GroupConfig.SETTINGS.values()),
            ),
            "## Client metrics",
            *table(
                ("name", "type", "default", "allowed", "what it does"),
                ((*_facts(setting), setting.help) for setting in ClientMetricsConfig.SETTINGS.values()),
            ),
            "## Settings without effect",
            *_without_effect(),
            "### Refused",
            "A node does not start with these, because ignoring them would weaken the cluster:\n",
            *table(("name", "why"), ((f"`{name}`", why) for name, why in inapplicable.DANGERS.items())),
        ]
    )


def _facts(setting: Setting) -> tuple[str, str, str, str]:
    default = setting.encode(setting.default)
    return (
        f"`{setting.name}`",
        setting.type.name.lower(),
        "none" if default is None else f"`{default}`" if default else "empty",
        "" if setting.allowed is None else setting.allowed.words,
    )


def _broker_row(setting: Setting) -> tuple[str, ...]:
    return (*_facts(setting), setting.update.value, setting.help)


def _inheriting_row(setting: Setting) -> tuple[str, ...]:
    return (*_facts(setting), ", ".join(f"`{each.name}`" for each in setting.synonyms), setting.help)


def _without_effect() -> list[str]:
    names: dict[str, list[str]] = {}
    for name, reason in inapplicable.REASONS.items():
        names.setdefault(reason, []).append(name)
    lines: list[str] = []
    for reason, found in names.items():
        lines += [f"**{reason[0].upper()}{reason[1:]}:** " + ", ".join(f"`{name}`" for name in found) + ".", ""]
    return lines


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name} written\n")
