"""Experiment trackers, as transformers integrates them, for its trainers and for other training loops.

They are no part of a result: their files are kept with the logs, and no stage key depends on them.
"""

import logging
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import integration_utils
from typing_extensions import override

from pipeline_lib.errors import BadInputError, errors_at
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.store.files import write_text

if TYPE_CHECKING:
    from dvclive.live import Live

LogStep = Callable[[int, int, Mapping[str, float]], None]
"""Called with step, total steps and the step's metrics."""
_KNOWN: Mapping[str, Callable[[], TrainerCallback]] = integration_utils.INTEGRATION_TO_CALLBACK


@dataclass(frozen=True, slots=True, kw_only=True)
class Trackers:
    """Names of trackers, and the folder of those that write files."""

    names: Sequence[str]
    """Their names in transformers: dvclive, tensorboard, wandb, trackio, ..."""
    folder: pathlib.Path
    run_name: str | None = None
    """Begins the names of runs; None: a run has the name of its phase."""

    @classmethod
    def of(cls, execution: ExecutionParams, folder: pathlib.Path) -> "Trackers":
        """The trackers of the params, with their files in ``folder``."""
        return cls(names=execution.report_to, folder=folder, run_name=execution.run_name)

    def check(self) -> None:
        """Refuse unknown names, and trackers whose package is missing.

        Raises:
            BadInputError: the message lists the known names, or what to install.
        """
        for name in self.names:
            if name not in _KNOWN:
                known = ", ".join(sorted(_KNOWN))
                raise BadInputError(f"execution.report_to: {name} is unknown; known are {known}")
            is_available = getattr(integration_utils, f"is_{name}_available", None)
            if is_available is not None and not is_available():
                raise BadInputError(
                    f"execution.report_to: {name} is not installed; run `pip install {name}`"
                )
            with errors_at(f"execution.report_to: {name}", RuntimeError, ImportError):
                # Some read their settings from the environment when they are made.
                _KNOWN[name]()

    def _run(self, phase: str) -> str:
        return phase if self.run_name is None else f"{self.run_name}-{phase}"

    def settings(self, phase: str) -> dict[str, Any]:
        """Arguments of a trainer for the trackers that write no files."""
        other = [name for name in self.names if name not in _FILE_TRACKERS]
        return {"report_to": other or "none", "run_name": self._run(phase), "project": "reasonloop"}

    def callbacks(self, phase: str) -> list[TrainerCallback]:
        """Callbacks of the trackers that write files, each to a folder for the phase, named as the run."""
        return [
            callback
            for name, make in _FILE_TRACKERS.items()
            if name in self.names
            for callback in make(self.folder / name / self._run(phase))
        ]


def trackers_beside(output: pathlib.Path, execution: ExecutionParams) -> Trackers:
    """The trackers of a training without a workspace, with their files in OUTPUT.trackers.

    Raises:
        BadInputError: as `Trackers.check`.
    """
    trackers = Trackers.of(execution, output.with_name(f"{output.name}.trackers"))
    trackers.check()
    return trackers


@contextmanager
def log_steps(trackers: Trackers, *, phase: str, facts: Mapping[str, Any]) -> Iterator[LogStep]:
    """Yield a function that logs a step as a trainer would, for a loop without one.

    Trackers are opened by the first step, and closed at the end, after errors as well. ``facts`` are the params of the
    run as JSON values.

    Raises:
        BadInputError: as `Trackers.check`.
    """
    state = TrainerState()
    trackers.check()
    callbacks: list[TrainerCallback] = []
    settings: list[_Settings] = []

    def send(event: str, **content: Any) -> None:
        for callback in callbacks:
            getattr(callback, event)(settings[0], state, TrainerControl(), **content)

    def log(step: int, total: int, metrics: Mapping[str, float]) -> None:
        if not callbacks:
            # Not earlier: under torchrun, TrainingArguments need the process group.
            settings.append(_Settings(output_dir=str(trackers.folder), **trackers.settings(phase)))
            settings[0].facts = facts
            callbacks.extend(
                _KNOWN[name]() for name in trackers.names if name not in _FILE_TRACKERS
            )
            callbacks.extend(trackers.callbacks(phase))
            send("on_train_begin")
        state.global_step, state.max_steps = step, total
        send("on_log", logs=dict(metrics))

    try:
        yield log
    finally:
        send("on_train_end")


class _Settings(TrainingArguments):
    """TrainingArguments that trackers record as ``facts``."""

    facts: Mapping[str, Any]

    @override
    def to_dict(self) -> dict[str, Any]:
        return dict(self.facts)


def _dvclive(folder: pathlib.Path) -> list[TrainerCallback]:
    from dvclive.live import Live  # noqa: PLC0415 - a second to import, and rarely used

    # Neither a dvc.yaml nor a DVC experiment: this repository has stages of its own.
    live = Live(dir=str(folder), dvcyaml=None, save_dvc_exp=False, resume=True)
    logging.getLogger("dvclive").setLevel(logging.ERROR)
    return [_LiveSteps(live, folder), integration_utils.DVCLiveCallback(live=live)]


class _LiveSteps(TrainerCallback):
    """Sets the step of DVCLive to the trainer's, also in a resumed run."""

    def __init__(self, live: "Live", folder: pathlib.Path) -> None:
        self._live = live
        self._folder = folder
        self._first = True

    @override
    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self._first:
            _drop_rows(self._folder, from_step=state.global_step)
            self._first = False
        self._live.step = state.global_step


def _drop_rows(folder: pathlib.Path, *, from_step: int) -> None:
    """Drop the rows of steps that are run again, which DVCLive would list twice."""
    for file in folder.rglob("*.tsv"):
        header, *rows = file.read_text("utf-8").splitlines(keepends=True) or [""]
        whole = [row for row in rows if row.endswith("\n")]
        kept = [row for row in whole if int(row.split("\t")[0]) < from_step]
        write_text(file, header + "".join(kept))


def _tensorboard(folder: pathlib.Path) -> list[TrainerCallback]:
    callback = integration_utils.TensorBoardCallback()  # type: ignore[no-untyped-call]
    callback.logging_dir = str(folder)
    return [callback]


_FILE_TRACKERS: Mapping[str, Callable[[pathlib.Path], list[TrainerCallback]]] = {
    "dvclive": _dvclive,
    "tensorboard": _tensorboard,
}
