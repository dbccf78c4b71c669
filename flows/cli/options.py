"""Options that several commands share."""

import json
import math
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import Parameter, validators
from typing_extensions import override

from pipeline_lib.engines.known.table import ENGINES
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.table import STAGES

if TYPE_CHECKING:
    Engine = str
else:
    # Choices at run time; a type checker accepts literal values only.
    Engine = Literal[tuple(ENGINES)]

AT_LEAST_ZERO = validators.Number(gte=0)
AT_LEAST_ONE = validators.Number(gte=1)
PORT = validators.Number(gte=1, lte=65535)
Workers = Annotated[int, Parameter(help="Verifier processes.", validator=AT_LEAST_ONE)]
Model = Annotated[
    str, Parameter(help="A Hugging Face folder or hub id; at a url, the model's name there.")
]
ANY_MODEL = "A Hugging Face folder or hub id, or the address of a running server, as in http://host:8000/v1."
EngineOption = Annotated[
    Engine | None, Parameter(help="Rollout engine; default: serve.engine of the params file.")
]
EngineLogs = Annotated[
    pathlib.Path, Parameter(help="The engine's output is written to logs/ in this folder.")
]
ModelFolder = Annotated[pathlib.Path, Parameter(help="Folder to write the model to.")]
LinesFile = Annotated[pathlib.Path, Parameter(help="JSON-lines file to write.")]
Minutes = Annotated[
    float | None,
    Parameter(
        help="Time limit; training stops behind a checkpoint, and the same command resumes it.",
        validator=validators.Number(gt=0),
    ),
]
Temperature = Annotated[float, Parameter(help="0 is greedy.", validator=AT_LEAST_ZERO)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ParamsOptions:
    """Options for the source of the params."""

    params_file: Annotated[
        pathlib.Path | None,
        Parameter(
            name="--params",
            help="The params file; default: params.yaml of this folder, else the one of the package.",
        ),
    ] = None
    profile: Annotated[
        str | None,
        Parameter(help="Overrides the params file: the name of a profile, or a YAML file."),
    ] = None
    overrides: Annotated[
        tuple[str, ...],
        Parameter(
            name="--set",
            negative="",
            help="KEY=VALUE, overrides both, as in train.lr=1e-4; repeatable.",
        ),
    ] = ()

    task: Annotated[
        str | None,
        Parameter(
            help="A task of your own, FILE.py, an installed module or an entry point; see `reasonloop task new`."
        ),
    ] = None

    def load(self, given: Mapping[str, object] = MappingProxyType({})) -> Params:
        """Read and check the params; options that are ``given``, by key, override them."""
        keys = ("prepare.dataset", "classmate.prepare.dataset", "pacore.scratch.task")
        chosen = {**dict.fromkeys(keys, self.task), **given}
        options = [
            f"{key}={json.dumps(value)}" for key, value in chosen.items() if value is not None
        ]
        overrides = [*self.overrides, *options]
        return load_params(self.params_file, profile=self.profile, overrides=overrides)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunnerOptions:
    """Options for the runner and cluster of a run."""

    runner: Annotated[
        Literal["ray", "thread"] | None,
        Parameter(help="Runner of shards and peers; default: execution.runner of the params file."),
    ] = None
    ray_address: Annotated[
        str | None,
        Parameter(
            help="A running Ray cluster, as in 10.0.0.5:6379 or auto; default: execution.ray_address "
            "of the params file, else RAY_ADDRESS, else Ray is started on this machine."
        ),
    ] = None

    @property
    def given(self) -> dict[str, object]:
        """The options by their keys in the params; None: not given."""
        return {"execution.runner": self.runner, "execution.ray_address": self.ray_address}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkspaceOptions(RunnerOptions):
    """Options for the workspace, runner and cluster of a run."""

    workspace: Annotated[
        pathlib.Path,
        Parameter(
            help="Folder that holds data/, models/ and reports/ of the run.",
            validator=validators.Path(file_okay=False),
        ),
    ] = pathlib.Path()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions(WorkspaceOptions):
    """Options for the workspace, runner, cluster and engine of a run."""

    engine: EngineOption = None

    @property
    @override
    def given(self) -> dict[str, object]:
        """The options by their keys in the params; None: not given."""
        return {**super().given, "serve.engine": self.engine}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """Options for the seeds of a run."""

    seed: Annotated[
        int | None,
        Parameter(help="Default: seed of the params file.", validator=AT_LEAST_ZERO),
    ] = None
    seeds: Annotated[
        str | None,
        Parameter(
            help="Several, as in 7,8,9: everything once for each, in seed-7 and so on of the workspace; then "
            "each difference, the mean, and intervals over problems and over seeds."
        ),
    ] = None

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of `--seeds`; none if it was not given.

        Raises:
            BadInputError: no different numbers, or `--seed` was given, too.
        """
        if self.seed is not None and self.seeds is not None:
            raise BadInputError("--seed and --seeds: give one of them")
        return read_list("seeds", self.seeds, int, low=0)


def seconds_of(minutes: float | None) -> float | None:
    """A time limit in seconds."""
    return None if minutes is None else 60 * minutes


DEFAULT_PARAMS = ParamsOptions()
DEFAULT_RUNNER = RunnerOptions()
DEFAULT_WORKSPACE = WorkspaceOptions()
DEFAULT_RUN = RunOptions()
DEFAULT_SEEDS = SeedOptions()

if TYPE_CHECKING:
    StageName = str
else:
    StageName = Literal[tuple(STAGES)]
Number = TypeVar("Number", int, float)


def read_list(name: str, text: str | None, kind: type[Number], *, low: float) -> tuple[Number, ...]:
    """The numbers of an option, separated by commas; none where it was not given.

    Raises:
        BadInputError: not numbers from ``low`` on, or one of them twice.
    """
    try:
        values = () if text is None else tuple(kind(part) for part in text.split(","))
    except ValueError:
        values = (kind(low) - 1,)
    if all(low <= value < math.inf for value in values) and len(set(values)) == len(values):
        return values
    raise BadInputError(
        f"--{name} {text}: give different numbers from {low:g} on, separated by commas"
    )


def read_sets(text: str, problems: int | None) -> list[dict[str, object]]:
    """Sections of ``evaluate.sets`` for `--dataset`, with ``problems`` of each; None: all.

    Raises:
        BadInputError: one is neither NAME nor NAME=SOURCE.
    """
    found: list[dict[str, object]] = []
    for one in text.split(","):
        name, equals, source = one.partition("=")
        if not name or (equals and not source) or "/" in name:
            raise BadInputError(f"--dataset {one}: give NAME, NAME=FOLDER or NAME=HUB_ID")
        found.append({"dataset": name, "source": source or None, "problems": problems})
    return found


def read_set(text: str | None, problems: int | None) -> list[dict[str, object]] | None:
    """As `read_sets`, of a single data set; None: not given. BadInputError: there are several."""
    found = None if text is None else read_sets(text, problems)
    if found is not None and len(found) > 1:
        raise BadInputError(f"--dataset {text}: give one data set, and another folder for the next")
    return found


def read_named(text: str, form: str, *, option: str = "") -> tuple[str, str]:
    """Name and value of an argument.

    Args:
        text: as given.
        form: what it should be, as in ``NAME=FOLDER``.
        option: its option, with a space, as in ``--lora ``.

    Raises:
        BadInputError: it has no name or no value; a path is no name.
    """
    name, _, value = text.partition("=")
    if not name or not value or "/" in name:
        raise BadInputError(f"{option}{text}: give {form}")
    return name, value
