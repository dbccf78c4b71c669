"""Shared by commands that run long: exit on SIGTERM, and messages about engine restarts."""

import signal
import sys
from dataclasses import dataclass
from types import FrameType

from flows.run.terminal import say
from pipeline_lib.engines.running_engine import RunningEngine


def exit_on_sigterm() -> None:
    """From now on SIGTERM leaves all blocks, and ends the process with code 143."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(_signal: int, _frame: FrameType | None) -> None:
    # A second SIGTERM would interrupt the shutdown of engines and flows.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(128 + signal.SIGTERM)


@dataclass(slots=True, kw_only=True)
class RestartReport:
    """Prints each restart of an engine once."""

    engine: RunningEngine
    _shown: int = 0

    def update(self) -> None:
        """Print the restarts since the last call; ReasonloopError: the engine was given up."""
        self.engine.check()
        for reason in self.engine.restart_reasons[self._shown :]:
            say(f"engine restarted: {reason}")
            self._shown += 1
