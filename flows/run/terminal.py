"""Consoles of the commands; control characters in their text cannot steer the terminal."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from typing_extensions import override

from pipeline_lib.terminal_text import one_line, printable


class PlainConsole(Console):
    """Drops control characters from the text; colours and bars of rich are kept."""

    @override
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of ``renderable``, those that are text cleaned."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


console = PlainConsole()
"""Of all commands."""


def say(text: str) -> None:
    """Print ``text`` as it is, in lines that are not wrapped."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def complain(message: str) -> None:
    """Print the reason why a command ends, in one line on stderr."""
    errors = PlainConsole(stderr=True, soft_wrap=True, highlight=False)
    errors.print(f"reasonloop: {one_line(message)}", markup=False)
