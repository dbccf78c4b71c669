"""Search for stop strings in a completion."""

from collections.abc import Sequence


def find_stop(text: str, stops: Sequence[str]) -> int | None:
    """Index of the first stop string in ``text``, or None. Empty stop strings are ignored."""
    places = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
    return min(places, default=None)
