"""Progress bars of one command, and of the stages of a run.

The bars of a run read the workspace's events, which threads and Ray workers write as well.
"""

import pathlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from flows.run.terminal import console
from flows.server.polling import polled
from pipeline_lib.telemetry import Event, WorkFollower, work_label

_REFRESH_S = 0.25


StepCallback = Callable[[int, int, Mapping[str, float]], None]
"""Of the steps done, their total, and the metrics of the last one."""


class Moved(Protocol):
    """A callback of the number done and the total; the metrics of a training's step are not shown."""

    def __call__(self, done: int, total: int, metrics: Mapping[str, float] = ..., /) -> None: ...  # noqa: D102


@contextmanager
def progress_bar(title: str, *others: StepCallback) -> Iterator[Moved]:
    """Yield the callback of a bar, which is removed at the end; it also calls ``others``."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(title, total=None)

        def moved(
            done: int, total: int, metrics: Mapping[str, float] = MappingProxyType({})
        ) -> None:
            progress.update(bar, completed=done, total=total)
            for other in others:
                other(done, total, metrics)

        yield moved


class ProgressView:
    """One bar per stage or draw, updated from the events of the workspace."""

    def __init__(self, root: pathlib.Path, progress: Progress) -> None:
        self._work = WorkFollower(root)
        self._progress = progress
        self._bars: dict[str, TaskID] = {}

    def refresh(self) -> None:
        """Read new events and update the bars; none on a broken disk, which the run itself reports."""
        with suppress(OSError):
            self._show_new()

    def _show_new(self) -> None:
        for event in self._work.read():
            if event["event"] == "work":
                self._show(event)
            elif event["event"] == "note":
                self._progress.console.print(event["text"], markup=False, soft_wrap=True)

    def _show(self, event: Event) -> None:
        name = work_label(event)
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=event["total"])
        completed = self._work.count(event)
        self._progress.update(self._bars[name], completed=completed, total=event["total"])


@contextmanager
def shown_progress(root: pathlib.Path, console: Console) -> Iterator[None]:
    """Show the bars while the block runs."""
    columns = (
        TextColumn("  {task.description:<22}"),
        BarColumn(bar_width=28),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with (
        Progress(*columns, console=console) as progress,
        polled(ProgressView(root, progress).refresh, poll_s=_REFRESH_S),
    ):
        yield
