"""Progress bars of one command, and of the stages of a run.

The bars of a run read the workspace's events, which threads and Ray workers write as well.
"""

import pathlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from pipeline_lib.telemetry import Event, events_size, read_new_events

_REFRESH_S = 0.25


@contextmanager
def progress_bar(console: Console, title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a callback of the number done and the total; the bar is removed at the end."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)


class ProgressView:
    """One bar per stage or draw, updated from the events of the workspace."""

    def __init__(self, root: pathlib.Path, progress: Progress) -> None:
        self._root = root
        self._progress = progress
        self._offset = events_size(root)
        self._bars: dict[str, TaskID] = {}
        self._done: dict[str, set[int]] = {}

    def refresh(self) -> None:
        """Read new events and update the bars."""
        new = read_new_events(self._root, self._offset)
        self._offset = new.offset
        for event in new.events:
            if event["event"] == "work":
                self._show(event)

    def _show(self, event: Event) -> None:
        name: str = event.get("label") or event["stage"]
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=event["total"])
        done = self._done.setdefault(name, set())
        done.add(event["done"])
        # Shards finish in any order, so they are counted; a resumed training starts at a later step.
        completed = event["done"] if event.get("unit") == "step" else len(done)
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
    stop = threading.Event()
    with Progress(*columns, console=console) as progress:
        view = ProgressView(root, progress)

        def follow() -> None:
            while not stop.wait(_REFRESH_S):
                view.refresh()

        follower = threading.Thread(target=follow, name="progress", daemon=True)
        follower.start()
        try:
            yield
        finally:
            stop.set()
            follower.join()
            view.refresh()
