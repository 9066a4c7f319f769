"""The command itself: its overview, what it says of mistakes, what it imports for whom."""

from __future__ import annotations

import subprocess
import sys

import pytest

from barnabas import __version__
from barnabas.cli.app import command, root
from barnabas.cli.main import COMMANDS, main
from barnabas.cli.output import cell, plain
from barnabas.cli.text import Exit, counted, suggestion
from barnabas.types import TopicPartition


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(words)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_overview_names_every_command(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _err = said(capsys, option)
    assert code == Exit.DONE
    for name, help in COMMANDS.items():
        assert f"  {name} " in out
        assert help in out


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--version") == (0, f"barnabas {__version__}\n", "")


def test_nothing_asked_shows_the_overview_as_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys)
    assert (code, out) == (Exit.USAGE, "")
    assert "usage: barnabas" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["topik"], "barnabas: no command topik (did you mean topic?); see barnabas --help\n"),
        (["xyzzy"], "barnabas: no command xyzzy; see barnabas --help\n"),
        (["--quick"], "barnabas: no option --quick; see barnabas --help\n"),
        (["topic", "lst"], "barnabas: barnabas topic has no command lst (did you mean list?)\n"),
        (["topic", "list", "--jsn"], None),
        (["topic", "create"], "barnabas: Missing argument 'TOPIC'; see barnabas topic create --help\n"),
        (["produce", "t", "--format", "xml"], "barnabas: --format xml: lines or json are wanted\n"),
        (["consume", "t", "--format", "%q"], None),
        (["consume", "t", "--from", "soon"], None),
        (["consume", "t", "--from", "5", "--from-beginning"], None),
        (["consume", "t", "--group", "g", "--from", "5"], None),
        (["topic", "alter", "t"], None),
        (["topic", "create", "t", "--config", "x"], "barnabas: --config x: a setting is NAME=VALUE\n"),
        (["topic", "create", "t", "--replica-assignment", "a"], None),
        (["group", "reset-offsets", "g", "--all-topics"], None),
        (["group", "reset-offsets", "g", "--to-latest"], None),
        (["quorum", "add-voter", "4", "--directory-id", "x", "--endpoint", "C://h:1"], None),
        (["transactions", "abort", "t"], None),
        (["transactions", "find-hanging", "--partition", "0"], None),
        (["reassign", "generate", "t", "--broker-list", "one"], None),
        (["produce", "t", "--producer-property", "linger.ns=3", "--value", "x"], None),
        (["topic", "list", "--bootstrap-server", "host:port"], None),
    ],
)
def test_mistakes_are_one_line_that_says_what_is_wanted(
    words: list[str], message: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(capsys, *words)
    assert (code, out) == (Exit.USAGE, "")
    assert err.startswith("barnabas: ")
    assert err.count("\n") == 1
    if message is not None:
        assert err == message


def test_an_unknown_option_gets_the_closest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--json" in said(capsys, "topic", "list", "--jsn")[2]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_has_help_and_examples(name: str) -> None:
    found = command(name)
    assert found.short_help == COMMANDS[name]
    for each in getattr(found, "commands", {name: found}).values():
        assert each.help
        assert each.epilog
        for example in each.epilog.splitlines():
            assert f"barnabas {name}" in example


@pytest.mark.parametrize("words", [["topic", "-h"], ["topic", "create", "--help"], ["consume", "-h"], ["doctor", "-h"]])
def test_help_is_no_mistake(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, *words)
    assert (code, err) == (Exit.DONE, "")
    assert out.startswith(f"Usage: barnabas {words[0]}")


def test_a_noun_without_its_verb_shows_its_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(capsys, "topic")
    assert (code, out) == (Exit.USAGE, "")
    assert "describe" in err


def test_the_root_knows_all_and_nothing_else() -> None:
    found = root()
    assert found.list_commands(None) == list(COMMANDS)
    assert found.get_command(None, "nothing") is None


def in_a_process(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_brokers_and_the_overview_need_neither_typer_nor_rich() -> None:
    code = """
import sys
from barnabas.cli.main import main
main(["--help"])
from barnabas.cli import serve, serving_options, supervise
serving_options.parser().parse_args(["up", "--memory"])
print([name for name in ("typer", "rich", "barnabas.client.admin") if name in sys.modules])
"""
    assert in_a_process(code).splitlines()[-1] == "[]"


def test_without_the_extra_it_says_what_to_install() -> None:
    code = """
import sys
sys.modules["typer"] = None
from barnabas.cli.main import main
sys.stderr = sys.stdout
print(main(["topic", "list"]))
"""
    assert in_a_process(code) == "barnabas: topic needs the package typer: pip install 'barnabas[cli]'\n1"


def test_words_for_people() -> None:
    assert (counted(1, "partition"), counted(2, "partition")) == ("1 partition", "2 partitions")
    assert suggestion("ordres", ["orders", "users"]) == " (did you mean orders?)"
    assert suggestion("zzz", ["orders"]) == ""
    assert [cell(value) for value in (None, True, [1, 2], (), "x")] == ["-", "yes", "1,2", "-", "x"]


def test_values_for_machines() -> None:
    assert plain({TopicPartition("t", 1): [b"text", b"\xff"]}) == {"t-1": ["text", {"base64": "/w=="}]}
    assert plain(TopicPartition("t", 1)) == {"topic": "t", "partition": 1}
    assert plain(Exit.DONE) == "DONE"
