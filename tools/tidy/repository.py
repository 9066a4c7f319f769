"""What holds for the repository as a whole: no traces of one machine, a changelog, settings that somebody reads."""

import ast
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.tidy.source import Module

# Written in pieces, so that this file does not complain about itself.
_MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me)/")
_REGISTRIES = re.compile(
    "|".join(
        (
            r"py" + r"pi\.(?:org|python\.org)",
            r"files\.python" + r"hosted\.org",
            r"repo1?\.maven\.(?:org|apache\.org)",
            r"registry\.npm" + r"js\.org",
            r"proxy\.go" + r"lang\.org",
            r"arti" + r"factory",
        )
    )
)


def tracked_files(repository: Path) -> list[Path] | None:
    """None where this is no working copy of git, as in an unpacked archive."""
    try:
        listing = subprocess.run(
            ["git", "-C", str(repository), "ls-files", "-z"], capture_output=True, check=True, timeout=30
        ).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        return None
    paths = [repository / name for name in listing.split("\0") if name]
    return [path for path in paths if path.is_file()]


def machine_traces(path: str, text: str) -> list[str]:
    complaints: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if _MACHINE_PATH.search(line):
            complaints.append(f"{path}:{number}: a path of one machine")
        if _REGISTRIES.search(line):
            complaints.append(f"{path}:{number}: the host of a package registry")
    return complaints


def changelog_faults(changelog: str, version: str) -> list[str]:
    """A section for what is coming or for the version at hand, with something in it."""
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    for section in sections:
        title, _, body = section.partition("\n")
        if title.strip().strip("[]").lower() == "unreleased" or title.strip("[] ").startswith(version):
            return [] if body.strip() else [f"CHANGELOG.md: the section «{title.strip()}» is empty"]
    return [f"CHANGELOG.md: neither «Unreleased» nor «{version}» has a section"]


def unread_settings(attributes: Mapping[str, str], modules: Iterable[Module]) -> list[str]:
    """Settings, given by name and attribute, that no module reads from a config: accepted, and then ignored."""
    read = {
        node.attr
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _is_config(node.value)
    }
    return [f"{name} is read by nothing" for name, attribute in attributes.items() if attribute not in read]


def _is_config(node: ast.expr) -> bool:
    """`config`, `self._config`, `broker.config`: by convention, what holds a config is called so."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name.endswith("config")
