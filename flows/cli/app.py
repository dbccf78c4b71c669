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
    *("run:run", "stage:stage", "sample:sample", "verify:verify", "build:build"),
    *("evaluate:evaluate", "stage:report", "compute_curves:compute_curves", "promote:promote"),
    *("serve:serve", "overlap:overlap", "import_model:import_model", "stages:stages"),
    *("kuberay:kuberay", "doctor:doctor", "deploy:deploy"),
)
"""Functions by their modules in this package."""
GROUPS = {
    "server": (
        "The local Prefect server that runs are recorded on.",
        ("server:start", "server:status", "server:stop"),
    ),
    "data": (
        "Raw data from outside the repository, under DVC.",
        ("data:import_",),
    ),
    "prr": (
        "Parallel latent branches (PRR): data in the files of TRM and HRM, training, evaluation.",
        (
            *("prr_data:build_arc", "prr_data:build_sudoku", "prr_data:build_maze"),
            *("prr_data:build_synthetic", "prr_models:train", "prr_models:evaluate"),
            *("prr_models:show", "prr_models:run"),
        ),
    ),
    "pacore": (
        "Parallel paths, compacted and synthesized over rounds (PaCoRe).",
        (
            *("pacore:solve", "pacore:batch", "pacore:consensus", "pacore_serve:serve"),
            *("pacore_cluster:master", "pacore_cluster:worker", "pacore_train:base"),
            *("pacore_train:train", "pacore_evaluate:evaluate", "pacore_evaluate:run"),
        ),
    ),
    "apr": (
        "A model that spawns and joins threads of its own (APR): traces, training, evaluation.",
        (
            *("apr_data:generate", "apr_train:train", "apr_train:rl", "apr_evaluate:evaluate"),
            *("apr_evaluate:trace", "apr_solve:solve", "apr_run:run"),
        ),
    ),
    "classmate": (
        "Peers that continue a chain and share its reward (Classmate).",
        (
            *("classmate:run", "classmate_train:train", "classmate_train:evaluate"),
            *("classmate_probe:probe", "classmate:show"),
        ),
    ),
    "stream": (
        "Verification over Kafka topics.",
        ("stream:verify", "stream:publish"),
    ),
    "export": (
        "A finished run, or a model, in the formats of other tools.",
        (
            *("export:inspect", "export:lm_eval", "export:policy", "export:pacore_cache"),
            *("export:model",),
        ),
    ),
}
"""Summary and functions of each group, likewise."""


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
    for path in (f"{__package__}.{command}" for command in commands):
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
