"""Other programs that show a training while it runs. They are told the figures of our own log and more.

They are no part of a result: what they write stands beside the logs, and no key depends on them.
"""

import logging
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import integration_utils
from typing_extensions import override

from pipeline_lib.errors import BadInputError
from pipeline_lib.storage.files import write_text

if TYPE_CHECKING:
    from dvclive.live import Live

_KNOWN: Mapping[str, Callable[[], TrainerCallback]] = integration_utils.INTEGRATION_TO_CALLBACK


@dataclass(frozen=True, slots=True, kw_only=True)
class Trackers:
    """Who is told, and where those write that keep files."""

    names: Sequence[str]
    """As transformers knows them: dvclive, tensorboard, wandb, trackio, ..."""
    folder: pathlib.Path

    def check(self) -> None:
        """Refuse a name that nobody knows, or whose package is missing.

        Raises:
            BadInputError: the message says what is known, or what to install.
        """
        for name in self.names:
            if name not in _KNOWN:
                known = ", ".join(sorted(_KNOWN))
                raise BadInputError(f"execution.report_to: {name} is unknown; known are {known}")
            try:
                _KNOWN[name]()
            except (RuntimeError, ImportError) as error:
                raise BadInputError(
                    f"execution.report_to: {name}: {' '.join(str(error).split())}"
                ) from error

    def settings(self, phase: str) -> dict[str, Any]:
        """Arguments of the trainer for all that need no folder of ours."""
        elsewhere = [name for name in self.names if name not in _IN_A_FOLDER]
        return {"report_to": elsewhere or "none", "run_name": phase, "project": "reasonloop"}

    def callbacks(self, phase: str) -> list[TrainerCallback]:
        """Callbacks of those that write files: each has a folder for each phase."""
        return [
            callback
            for name, make in _IN_A_FOLDER.items()
            if name in self.names
            for callback in make(self.folder / name / phase)
        ]

    def outside(self, phase: str, facts: Mapping[str, Any]) -> "OutsideSteps":
        """For a training without a trainer of transformers', which has ``facts`` for its settings."""
        return OutsideSteps(self, phase, facts)


class OutsideSteps:
    """Plays the part of a trainer before the trackers, from the first step that it is told."""

    def __init__(self, trackers: Trackers, phase: str, facts: Mapping[str, Any]) -> None:
        self._trackers = trackers
        self._phase = phase
        self._facts = facts
        self._opened: _Opened | None = None

    def tell(self, step: int, total: int, metrics: Mapping[str, float]) -> None:
        """Pass on the metrics of a step."""
        if self._opened is None:
            # Not before: under torchrun the settings must find the group of processes made.
            self._opened = self._open()
            self._opened.send("on_train_begin")
        self._opened.state.global_step, self._opened.state.max_steps = step, total
        self._opened.send("on_log", logs=dict(metrics))

    def close(self) -> None:
        """Let them write the rest; nothing if no step was told."""
        if self._opened is not None:
            self._opened.send("on_train_end")

    def _open(self) -> "_Opened":
        trackers = self._trackers
        settings = _Settings(output_dir=str(trackers.folder), **trackers.settings(self._phase))
        settings.facts = self._facts
        elsewhere = [_KNOWN[name]() for name in trackers.names if name not in _IN_A_FOLDER]
        return _Opened(
            settings=settings,
            state=TrainerState(),
            callbacks=[*elsewhere, *trackers.callbacks(self._phase)],
        )


class _Settings(TrainingArguments):
    """What trackers ask a trainer for; as its params they get those of our training."""

    facts: Mapping[str, Any]

    @override
    def to_dict(self) -> dict[str, Any]:
        return dict(self.facts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    settings: _Settings
    state: TrainerState
    callbacks: Sequence[TrainerCallback]

    def send(self, event: str, **content: Any) -> None:
        for callback in self.callbacks:
            getattr(callback, event)(self.settings, self.state, TrainerControl(), **content)


def _dvclive(folder: pathlib.Path) -> list[TrainerCallback]:
    from dvclive.live import Live  # noqa: PLC0415 - it takes a second, and few ask for it

    # It must neither write a dvc.yaml nor save an experiment: stages and versions are DVC's own.
    live = Live(dir=str(folder), dvcyaml=None, save_dvc_exp=False, resume=True)
    logging.getLogger("dvclive").setLevel(logging.ERROR)
    return [_StepsOf(live, folder), integration_utils.DVCLiveCallback(live=live)]


class _StepsOf(TrainerCallback):
    """Gives a figure the number of its step, also in a run that was continued."""

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
    """Of steps that are done again, after a kill or with other params; dvclive would have them twice."""
    for file in folder.rglob("*.tsv"):
        header, *rows = file.read_text("utf-8").splitlines(keepends=True) or [""]
        whole = [row for row in rows if row.endswith("\n")]
        kept = [row for row in whole if int(row.split("\t")[0]) < from_step]
        write_text(file, header + "".join(kept))


def _tensorboard(folder: pathlib.Path) -> list[TrainerCallback]:
    callback = integration_utils.TensorBoardCallback()  # type: ignore[no-untyped-call]
    callback.logging_dir = str(folder)
    return [callback]


_IN_A_FOLDER: Mapping[str, Callable[[pathlib.Path], list[TrainerCallback]]] = {
    "dvclive": _dvclive,
    "tensorboard": _tensorboard,
}
