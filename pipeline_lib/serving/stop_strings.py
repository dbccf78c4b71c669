"""Where a completion ends because a stop text came up."""

from collections.abc import Sequence


def stop_place(text: str, stops: Sequence[str]) -> int | None:
    """Where the first of ``stops`` begins in ``text``; None when there is none.

    An empty stop text is ignored: it would end everything before its first character.
    """
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return min(places, default=None)
