"""Options that several commands share."""

import json
import math
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from cyclopts import Parameter, validators
from typing_extensions import override

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import PARAMS_FILE, load_params
from pipeline_lib.repository import REPOSITORY
from pipeline_lib.serving.engines.table import ENGINES
from pipeline_lib.stages.systems import STAGES

if TYPE_CHECKING:
    Engine = str
else:
    # Choices at run time; a type checker accepts literal values only.
    Engine = Literal[tuple(ENGINES)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ParamsOptions:
    """Options for the source of the params."""

    params_file: Annotated[pathlib.Path, Parameter(name="--params", help="The params file.")] = (
        PARAMS_FILE
    )
    profile: Annotated[
        str | None,
        Parameter(help="Overrides the params file: a name in profiles/, or a YAML file."),
    ] = None
    overrides: Annotated[
        tuple[str, ...],
        Parameter(
            name="--set",
            negative="",
            help="KEY=VALUE, overrides both, as in train.lr=1e-4; repeatable.",
        ),
    ] = ()

    def load(self, *more: str) -> Params:
        """Read and check the params; ``more`` are further overrides."""
        return load_params(
            self.params_file, profile=self.profile, overrides=[*self.overrides, *more]
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WorkspaceOptions:
    """Options for the workspace, runner and cluster of a run."""

    workspace: Annotated[
        pathlib.Path,
        Parameter(
            help="Folder that holds data/, models/ and reports/ of the run.",
            validator=validators.Path(file_okay=False),
        ),
    ] = REPOSITORY
    runner: Annotated[
        Literal["ray", "thread"] | None,
        Parameter(help="Task runner of shards; default: execution.runner of the params file."),
    ] = None
    ray_address: Annotated[
        str | None,
        Parameter(
            help="A running Ray cluster, as in 10.0.0.5:6379 or auto; default: execution.ray_address "
            "of the params file, else RAY_ADDRESS, else Ray is started on this machine."
        ),
    ] = None

    @property
    def overrides(self) -> list[str]:
        """Runner and cluster as overrides of the params."""
        return _overrides(
            {"execution.runner": self.runner, "execution.ray_address": self.ray_address}
        )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class RunOptions(WorkspaceOptions):
    """Options for the workspace, runner, cluster and engine of a run."""

    engine: Annotated[
        Engine | None,
        Parameter(help="Rollout engine; default: serve.engine of the params file."),
    ] = None

    @property
    @override
    def overrides(self) -> list[str]:
        """Runner, cluster and engine as overrides of the params."""
        return [*super().overrides, *_overrides({"serve.engine": self.engine})]


def _overrides(given: Mapping[str, str | None]) -> list[str]:
    return [f"{key}={json.dumps(value)}" for key, value in given.items() if value is not None]


DEFAULT_PARAMS = ParamsOptions()
DEFAULT_WORKSPACE = WorkspaceOptions()
DEFAULT_RUN = RunOptions()

if TYPE_CHECKING:
    StageName = str
else:
    StageName = Literal[tuple(STAGES)]
Number = TypeVar("Number", int, float)

AT_LEAST_ONE = validators.Number(gte=1)
PORT = validators.Number(gte=1, lte=65535)
Workers = Annotated[int, Parameter(help="Verifier processes.", validator=AT_LEAST_ONE)]


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
