"""Other programs that show a training while it runs. They are told the figures of our own log and more.

They are no part of a result: what they write stands beside the logs, and no key depends on them.
"""

import logging
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback
from transformers.integrations import integration_utils
from typing_extensions import override

from pipeline_lib.errors import BadInputError

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


def _dvclive(folder: pathlib.Path) -> list[TrainerCallback]:
    from dvclive.live import Live  # noqa: PLC0415 - it takes a second, and few ask for it

    # It must neither write a dvc.yaml nor save an experiment: stages and versions are DVC's own.
    live = Live(dir=str(folder), dvcyaml=None, save_dvc_exp=False, resume=True)
    logging.getLogger("dvclive").setLevel(logging.ERROR)
    return [_StepsOf(live), integration_utils.DVCLiveCallback(live=live)]


class _StepsOf(TrainerCallback):
    """Gives a figure the number of its step, also in a run that was continued."""

    def __init__(self, live: "Live") -> None:
        self._live = live

    @override
    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._live.step = state.global_step


def _tensorboard(folder: pathlib.Path) -> list[TrainerCallback]:
    callback = integration_utils.TensorBoardCallback()  # type: ignore[no-untyped-call]
    callback.logging_dir = str(folder)
    return [callback]


_IN_A_FOLDER: Mapping[str, Callable[[pathlib.Path], list[TrainerCallback]]] = {
    "dvclive": _dvclive,
    "tensorboard": _tensorboard,
}
