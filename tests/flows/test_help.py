"""The command line as recorded: the help page of every command, and how bad arguments end.

A change that is meant to alter it records it again, and says so in the commit:

    pytest tests/flows/test_help.py --snapshot-update
"""

import io
from collections.abc import Iterator

import pytest
from cyclopts import App, CycloptsError
from rich.console import Console

from benchmarks.lib.repository import REPOSITORY
from flows.cli.app import build_app, main

ANY_WIDTH = 10_000
"""Columns: no line is wrapped, so that a page is independent of the length of the default paths."""


def walk(app: App, tokens: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """The root, its groups and commands, each with the words that call it."""
    yield tokens, app
    for name in app:
        if not name.startswith("-"):
            yield from walk(app[name], (*tokens, name))


@pytest.fixture(scope="module")
def commands() -> dict[tuple[str, ...], App]:
    """The root, all groups and all commands."""
    app = build_app()
    app.help_formatter = "plain"
    return dict(walk(app))


def test_help_pages(commands, snapshot):
    """Of every command; a new command, option, default or choice changes a page."""
    pages = {}
    for tokens in commands:
        console = Console(file=io.StringIO(), width=ANY_WIDTH, color_system=None)
        commands[()].help_print(tokens, console=console)
        lines = console.file.getvalue().replace(str(REPOSITORY), "REPOSITORY").splitlines()
        page = "\n".join(filter(None, map(str.rstrip, lines)))
        pages[" ".join(("reasonloop", *tokens))] = page
    assert pages == snapshot


def test_help_ends_with_0(commands, capsys):
    """A command's page has an example of its call to copy."""
    for tokens, command in commands.items():
        code, out, err = end(capsys, *tokens, "--help")
        assert (code, err) == (0, "")
        assert command.default_command is None or " ".join(("reasonloop", *tokens)) in example(out)


def example(page: str) -> str:
    """The page without its first line, which shows how a command is called."""
    return page.lstrip().partition("\n")[2]


def test_bad_arguments_end_with_2(commands, capsys, snapshot):
    """An unknown option, and no argument where one is required: one line on stderr, nothing on stdout."""
    lines = {}
    for tokens, command in commands.items():
        name = " ".join(("reasonloop", *tokens))
        lines[f"{name} --unknown"] = refusal(commands[()], capsys, *tokens, "--unknown")
        if command.default_command and any(
            argument.required for argument in command.assemble_argument_collection()
        ):
            lines[name] = refusal(commands[()], capsys, *tokens)
    assert lines == snapshot


def refusal(app: App, capsys, *arguments: str) -> str:
    """The line on stderr of a call that ends with code 2."""
    with pytest.raises(CycloptsError):  # otherwise the call would do its work
        app.parse_args(arguments, exit_on_error=False, print_error=False)
    code, out, err = end(capsys, *arguments)
    [line] = err.splitlines()
    assert (code, out) == (2, "")
    return line


def end(capsys, *arguments: str) -> tuple[object, str, str]:
    """Exit code, stdout and stderr of a call."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return (stopped.value.code, *capsys.readouterr())
