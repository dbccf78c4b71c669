"""Single completions by a script, on a clock of its own: hours of delays pass in seconds.

For tests and benchmarks of programs of many dependent calls.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from typing_extensions import override

from benchmarks.lib.scripted import ScriptedModel
from pipeline_lib.engines.chat_model import Completion, Decoding, Request

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedDraws:
    """Implements Draws by a `ScriptedModel`, which answers after ``delay_s(prompt, seed)``."""

    model: ScriptedModel
    delay_s: Callable[[str, int], float]
    names_stops: bool = True

    async def draw(self, prompt: str, seed: int, decoding: Decoding) -> Completion:
        """One completion."""
        await asyncio.sleep(self.delay_s(prompt, seed))
        [[drawn]] = self.model.complete([Request(prompt=prompt, seeds=[seed])], decoding)
        return drawn if self.names_stops else replace(drawn, stopped_by=None)


def run_on_scripted_clock(main: Coroutine[Any, Any, _T]) -> tuple[_T, float]:
    """The result of ``main``, and the seconds that it took on the clock of its event loop.

    The clock stands still while code runs, and jumps to the next timer when all tasks wait.

    Raises:
        RuntimeError: all tasks wait, and none for a timer.
    """
    with asyncio.Runner(loop_factory=_ScriptedLoop) as runner:
        return runner.run(main), runner.get_loop().time()


class _ScriptedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._selector_ = _JumpingSelector()
        super().__init__(self._selector_)

    @override
    def time(self) -> float:
        return self._selector_.now_s


class _JumpingSelector(selectors.DefaultSelector):
    """Waits by moving the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("all tasks wait, and none for a timer")
        self.now_s += max(timeout, 0.0)
        return super().select(0)
