"""The commands on typer: how they are found, how their help looks, and how each way to fail becomes an exit code.

Always holds: a command's module is imported when that command is called, or when a shell asks how to complete it.
Whatever goes wrong is one line on standard error that says what to do, and never a traceback, unless it is a mistake
of ours. Does not know: what any command does.
"""

import argparse
import functools
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from barnabas.cli.main import COMMANDS, COMPLETION_VARIABLE, SERVING
from barnabas.cli.options import Connection
from barnabas.cli.text import CommandFailed, Exit, failed, suggestion

F = TypeVar("F", bound=Callable[..., Any])
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

ABSENCES = frozenset(
    {
        "UNKNOWN_TOPIC_OR_PARTITION",
        "UNKNOWN_TOPIC_ID",
        "GROUP_ID_NOT_FOUND",
        "TRANSACTIONAL_ID_NOT_FOUND",
        "VOTER_NOT_FOUND",
        "BROKER_ID_NOT_REGISTERED",
        "RESOURCE_NOT_FOUND",
    }
)


class Verb(TyperCommand):
    """Names arguments as people do, and shows its examples as they were written."""

    def invoke(self, context: Any) -> Any:
        """Typer would end with 1 where nobody reads on."""
        try:
            result = super().invoke(context)
            sys.stdout.flush()
        except BrokenPipeError:
            _stop_writing()
            raise typer.Exit(Exit.BROKEN_PIPE) from None
        return result

    def format_options(self, context: Any, formatter: Any) -> None:
        rows: dict[str, list[tuple[str, str]]] = {"argument": [], "option": []}
        for parameter in self.get_params(context):
            row = parameter.get_help_record(context)
            if row is not None:
                kind = parameter.param_type_name
                rows[kind].append((parameter.metavar or row[0], row[1]) if kind == "argument" else row)
        for kind, found in rows.items():
            if found:
                with formatter.section(f"{kind.title()}s"):
                    formatter.write_dl(found)

    def format_epilog(self, _context: Any, formatter: Any) -> None:
        if self.epilog:
            with formatter.section("Examples"):
                for line in self.epilog.splitlines():
                    formatter.write(f"  {line}\n")


class Noun(TyperGroup):
    """Knows what its verbs are called when another is asked for."""

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        name = arguments[0]
        if not name.startswith("-") and self.get_command(context, name) is None:
            known = self.list_commands(context)
            hint = suggestion(name, known) or f"; it knows {', '.join(known)}"
            raise CommandFailed(f"{context.command_path} has no command {name}{hint}", Exit.USAGE)
        return super().resolve_command(context, arguments)


class Root(Noun):
    def list_commands(self, _context: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _context: Any, name: str) -> Any:
        return command(name) if name in COMMANDS else None


def noun(help: str) -> typer.Typer:
    """For commands of several words: `barnabas topic list`."""
    return typer.Typer(
        cls=Noun,
        help=help,
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings=CONTEXT,
    )


def single() -> typer.Typer:
    """For commands of one word: `barnabas produce`."""
    return typer.Typer(
        rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False, context_settings=CONTEXT
    )


def verb(app: typer.Typer, *examples: str, name: str | None = None) -> Callable[[F], F]:
    def register(function: F) -> F:
        command = app.command(name, cls=Verb, epilog="\n".join(examples), context_settings=CONTEXT)
        command(_with_connection(function))
        return function

    return register


def _with_connection(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with an option for each field of a Connection where it takes one."""
    parameters = inspect.signature(function, eval_str=True).parameters
    if not any(each.annotation is Connection for each in parameters.values()):
        return function
    options: list[inspect.Parameter] = []
    hints = get_type_hints(Connection, include_extras=True)
    for each in parameters.values():
        if each.annotation is not Connection:
            options.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        options += [
            inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[field])
            for field, default in Connection._field_defaults.items()
        ]

    @functools.wraps(function)
    def call(**given: Any) -> Any:
        connection = Connection(**{field: given.pop(field) for field in Connection._fields})
        return function(connection=connection, **given)

    return _with_signature(call, options)


def _with_signature(function: F, parameters: list[inspect.Parameter]) -> F:
    """Typer reads options from signatures."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    return function


def command(name: str) -> Any:
    """The command of this name, as typer runs it."""
    if name in SERVING:
        return _described(name)
    found: Any = get_command(importlib.import_module(f"barnabas.cli.commands.{name}").app)
    found.name = name
    found.short_help = COMMANDS[name]
    return found


def root() -> Any:
    app = typer.Typer(cls=Root, rich_markup_mode=None, add_completion=True, context_settings=CONTEXT)

    @app.callback()
    def everything() -> None:
        """A distributed log that speaks Kafka's wire protocol."""

    return get_command(app)


def _described(name: str) -> Any:
    """The options of a command that typer never runs, for shells that complete them and for the reference page."""
    from barnabas.cli.serving_options import command_parsers

    parser = command_parsers()[name]
    parameters = []
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._HelpAction):
            continue
        help = (action.help or "").replace("%(default)s", str(action.default))
        kind: Any = bool if action.nargs == 0 else list[str] if isinstance(action.default, list) else str
        metavar = action.metavar if isinstance(action.metavar, str) else None
        info: Any
        if action.option_strings:
            default = False if kind is bool else None
            info = typer.Option(default, *action.option_strings, help=help, metavar=metavar, show_default=False)
        else:
            info = typer.Argument(..., help=help, metavar=metavar)
        parameters.append(inspect.Parameter(action.dest, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=kind))

    def never_run(**_options: Any) -> None:
        raise AssertionError(f"{name} is run by cli.main")

    never_run.__doc__ = parser.description
    app = single()
    examples = (parser.epilog or "").partition("\n")[2].replace("  barnabas", "barnabas").splitlines()
    verb(app, *examples)(_with_signature(never_run, parameters))
    found: Any = get_command(app)
    found.name = name
    found.short_help = COMMANDS[name]
    return found


def run(words: list[str]) -> int:
    """Runs one command line; the exit code."""
    try:
        code = root().main(words, prog_name="barnabas", complete_var=COMPLETION_VARIABLE, standalone_mode=False)
        return int(code or 0)
    except (KeyboardInterrupt, typer.Abort):
        return Exit.INTERRUPTED
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a noun without its verb
            print(error, file=sys.stderr)
            return Exit.USAGE
        told = _told(error)
        if told is None:
            raise
        message, code = told
        if "--json" in words and code is not Exit.USAGE:
            _tell_machines(error, message)
            return code
        return failed(message, code)


def _told(error: Exception) -> tuple[str, Exit] | None:
    """What to say of an error, and how to end; None where it is a mistake of ours."""
    if isinstance(error, CommandFailed):
        return str(error), error.code
    if hasattr(error, "format_message"):  # typer's errors about usage, which it keeps to itself
        context = getattr(error, "ctx", None)
        where = f"; see {context.command_path} --help" if context is not None else ""
        text = " ".join(error.format_message().replace("Value error, ", "").split()).rstrip(".")
        return f"{text}{where}", Exit.USAGE
    return _told_of_the_world(error)


def _told_of_the_world(error: Exception) -> tuple[str, Exit] | None:
    from barnabas.client.connection import ConnectionLost
    from barnabas.client.errors import KafkaError, KafkaTimeoutError
    from barnabas.config.validation import ConfigError

    if isinstance(error, ConfigError):
        return str(error), Exit.USAGE
    if isinstance(error, KafkaTimeoutError | ConnectionLost):
        return str(error), Exit.UNREACHABLE
    if isinstance(error, KafkaError):
        return str(error), Exit.NOT_FOUND if error.code.name in ABSENCES else Exit.FAILED
    if isinstance(error, FileNotFoundError):
        return f"there is no file {error.filename}", Exit.NOT_FOUND
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", Exit.FAILED
    return None


def _tell_machines(error: Exception, message: str) -> None:
    code = getattr(error, "code", None)
    name = "FAILED" if code is None else code.name
    print(json.dumps({"error": {"code": name, "message": message}}), file=sys.stderr, flush=True)


def _stop_writing() -> None:
    """Nobody reads any more: what is still in the buffer must not fail again when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
