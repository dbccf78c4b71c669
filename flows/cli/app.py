"""The root command: subcommands by import path, and errors as one line with an exit code.

A subcommand's module is imported when it is called, so `reasonloop --help` starts fast.
"""

import ast
import functools
import os
import pathlib
from collections.abc import Sequence
from importlib import metadata

from cyclopts import App, CycloptsError

from flows.run.failures import errors_as_lines
from pipeline_lib.defaults import CHECKOUT
from pipeline_lib.errors import BadInputError

COMMANDS = (
    "run:loop as run",
    "run:stage",
    "loop.lines:sample",
    "loop.lines:verify",
    "loop.lines:build",
    "loop.lines:train",
    "loop.evaluate:evaluate",
    "run:report",
    "loop.benchmark:benchmark",
    "loop.compute_curves:compute_curves",
    "loop.rollouts:import_rollouts",
    "power:power",
    "frontier:frontier",
    "platform.promote:promote",
    "serve:serve",
    "files.overlap:overlap",
    "files.data:import_model",
    "loop.stages:stages",
    "platform.doctor:doctor",
    "platform.deploy:deploy",
)
"""Functions by their modules in this package, with the name of the command where it is another."""
GROUPS = {
    "server": (
        "The local Prefect server that runs are recorded on.",
        ("platform.server:start", "platform.server:status", "platform.server:stop"),
    ),
    "data": (
        "Data from outside the repository: looked at, or imported under DVC.",
        ("files.data_check:check", "files.data:import_"),
    ),
    "task": (
        "A task of your own in one file: problems, prompt, verifier, reward.",
        ("files.task:new", "files.task:check"),
    ),
    "prr": (
        "Parallel latent branches (PRR): data in the files of TRM and HRM, training, evaluation.",
        (
            "prr:build_arc",
            "prr:build_sudoku",
            "prr:build_maze",
            "prr:build_synthetic",
            "prr:train",
            "prr:evaluate",
            "prr:show",
            "run:prr as run",
        ),
    ),
    "pacore": (
        "Parallel paths, compacted and synthesized over rounds (PaCoRe).",
        (
            "pacore.solve:solve",
            "pacore.solve:batch",
            "pacore.solve:consensus",
            "pacore.solve:weights",
            "pacore.serve:serve",
            "pacore.cluster:master",
            "pacore.cluster:worker",
            "pacore.queue:status",
            "pacore.queue:fetch",
            "pacore.train:base",
            "pacore.train:train",
            "pacore.train:evaluate",
            "run:pacore as run",
        ),
    ),
    "apr": (
        "A model that spawns and joins threads of its own (APR): traces, training, evaluation.",
        (
            "apr.models:generate",
            "apr.models:import_traces",
            "apr.models:train",
            "apr.models:rl",
            "apr.evaluate:evaluate",
            "apr.evaluate:trace",
            "apr.models:solve",
            "run:apr as run",
        ),
    ),
    "classmate": (
        "Peers that continue a chain and share its reward (Classmate).",
        (
            "run:classmate as run",
            "classmate.train:train",
            "classmate.train:evaluate",
            "classmate.probe:probe",
            "classmate.probe:show",
        ),
    ),
    "stream": (
        "Verification, and stages of a run in processes of their own, over Kafka topics.",
        ("files.stream:stage", "files.stream:verify"),
    ),
    "export": (
        "A finished run, or a model, in the formats of other tools.",
        (
            "files.export:inspect",
            "files.export:lm_eval",
            "files.export:policy",
            "files.export:pacore_cache",
            "files.export:model",
        ),
    ),
}
"""Summary and functions of each group, likewise."""


def build_app() -> App:
    """The root command; no subcommand is imported."""
    app = App(
        name="reasonloop",
        version=metadata.version("reasonloop"),
        help="Many reasoning paths, one verified loop: sample, verify, train, evaluate.",
        version_flags=["--version"],
        help_format="markdown",
    )
    _register(app, COMMANDS)
    for name, (summary, commands) in GROUPS.items():
        group = App(name=name, help=summary, help_format="markdown")
        _register(group, commands)
        app.command(group)
    return app


def _register(app: App, commands: Sequence[str]) -> None:
    for command in commands:
        path, _, name = f"{__package__}.{command}".partition(" as ")
        # Cyclopts lists a lazy command without a summary unless `help` is given, and then shows
        # `help` in place of the docstring; so it is the docstring.
        app.command(path, name=name or None, help=docstring(path))


def docstring(path: str) -> str:
    """The help of ``module:function``, read from the source without importing it.

    It is the docstring of the function, or of the stages of the system that has its name.
    """
    module, _, name = path.partition(":")
    functions = [node for node in _parse(module).body if isinstance(node, ast.FunctionDef)]
    for node in functions:
        if node.name == name:
            return ast.get_docstring(node) or ""
    return ast.get_docstring(_parse(f"pipeline_lib.systems.{name}.stages")) or ""


@functools.cache
def _parse(module: str) -> ast.Module:
    source = pathlib.Path(__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py")
    return ast.parse(source.read_text("utf-8"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an error that a user can act on is one line and an exit code."""
    with errors_as_lines():
        try:
            build_app()(arguments, exit_on_error=False, print_error=False)
        except CycloptsError as error:
            raise BadInputError(str(error)) from None


def command() -> None:
    """Run the command of this process."""
    # Whatever it starts has the same packages; packages of the current folder may have the same names.
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(CHECKOUT), *filter(None, path)]))
    os.environ["PYTHONSAFEPATH"] = "1"
    main()
