"""The root command: subcommands by import path, and errors as one line with an exit code.

A subcommand's module is imported when it is called, so `reasonloop --help` starts fast.
"""

import ast
import functools
import pathlib
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from flows.failures import failure_line
from flows.terminal import complain
from pipeline_lib.errors import BadInputError, ReasonloopError

INTERRUPTED = 130
COMMANDS = (
    "flows.cli.run:run",
    "flows.cli.stage:stage",
    "flows.cli.sample:sample",
    "flows.cli.verify:verify",
    "flows.cli.build:build",
    "flows.cli.evaluate:evaluate",
    "flows.cli.stage:report",
    "flows.cli.compute_curves:compute_curves",
    "flows.cli.promote:promote",
    "flows.cli.serve:serve",
    "flows.cli.overlap:overlap",
    "flows.cli.import_model:import_model",
    "flows.cli.stages:stages",
    "flows.cli.kuberay:kuberay",
    "flows.cli.doctor:doctor",
    "flows.cli.deploy:deploy",
)
GROUPS = {
    "server": (
        "The local Prefect server that runs are recorded on.",
        ("flows.cli.server:start", "flows.cli.server:status", "flows.cli.server:stop"),
    ),
    "data": (
        "Raw data from outside the repository, under DVC.",
        ("flows.cli.data:import_",),
    ),
    "prr": (
        "Parallel latent branches (PRR): data in the files of TRM and HRM, training, evaluation.",
        (
            "flows.cli.prr_data:build_arc",
            "flows.cli.prr_data:build_sudoku",
            "flows.cli.prr_data:build_maze",
            "flows.cli.prr_data:build_synthetic",
            "flows.cli.prr_models:train",
            "flows.cli.prr_models:evaluate",
            "flows.cli.prr_models:show",
            "flows.cli.prr_models:run",
        ),
    ),
    "pacore": (
        "Parallel paths, compacted and synthesized over rounds (PaCoRe).",
        (
            "flows.cli.pacore:solve",
            "flows.cli.pacore:batch",
            "flows.cli.pacore:consensus",
            "flows.cli.pacore_serve:serve",
            "flows.cli.pacore_cluster:master",
            "flows.cli.pacore_cluster:worker",
            "flows.cli.pacore_train:base",
            "flows.cli.pacore_train:train",
            "flows.cli.pacore_evaluate:evaluate",
            "flows.cli.pacore_evaluate:run",
        ),
    ),
    "apr": (
        "A model that spawns and joins threads of its own (APR): traces, training, evaluation.",
        (
            "flows.cli.apr_data:generate",
            "flows.cli.apr_train:train",
            "flows.cli.apr_train:rl",
            "flows.cli.apr_evaluate:evaluate",
            "flows.cli.apr_evaluate:trace",
            "flows.cli.apr_solve:solve",
            "flows.cli.apr_run:run",
        ),
    ),
    "classmate": (
        "Peers that continue a chain and share its reward (Classmate).",
        (
            "flows.cli.classmate:run",
            "flows.cli.classmate_train:train",
            "flows.cli.classmate_train:evaluate",
            "flows.cli.classmate_probe:probe",
            "flows.cli.classmate:show",
        ),
    ),
    "stream": (
        "Verification over Kafka topics.",
        ("flows.cli.stream:verify", "flows.cli.stream:publish"),
    ),
    "export": (
        "A finished run, or a model, in the formats of other tools.",
        (
            "flows.cli.export:inspect",
            "flows.cli.export:lm_eval",
            "flows.cli.export:policy",
            "flows.cli.export:pacore_cache",
            "flows.cli.export:model",
        ),
    ),
}


def build_app() -> App:
    """The root command; no subcommand is imported."""
    app = App(
        name="reasonloop",
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
    for path in commands:
        # Cyclopts lists a lazy command without a summary unless `help` is given, and then shows
        # `help` in place of the docstring; so it is the docstring.
        app.command(path, help=docstring(path))


def docstring(path: str) -> str:
    """The docstring of ``module:function``, read from the source without importing it."""
    module, _, name = path.partition(":")
    for node in _functions(module):
        if node.name == name:
            return ast.get_docstring(node) or ""
    raise LookupError(path)


@functools.cache
def _functions(module: str) -> list[ast.FunctionDef]:
    source = pathlib.Path(__file__).with_name(f"{module.rpartition('.')[2]}.py")
    tree = ast.parse(source.read_text("utf-8"))
    return [node for node in tree.body if isinstance(node, ast.FunctionDef)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; an error that a user can act on is one line and an exit code."""
    try:
        build_app()(arguments, exit_on_error=False, print_error=False)
    except CycloptsError as error:
        complain(str(error))
        sys.exit(BadInputError.exit_code)
    except ReasonloopError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        line = failure_line(error)
        if line is None:  # a bug
            raise
        complain(line)
        sys.exit(ReasonloopError.exit_code)
