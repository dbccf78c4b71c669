r"""Multiple choice: letters with or without marks, and what they stand for: ``\textbf{(C)}\ 12``."""

import re
from dataclasses import dataclass

from pipeline_lib.verification.math.exact.normal_form import TEXT

_ONE = re.compile(
    r"(?:(?i:option|choice|answer)s? )?(?:\( ?([A-Ja-j]) ?\)|([A-Ja-j])(?:[).:](?= |$)|$))(?: ?(\S.*))?"
)
_JOINT = re.compile(r" ?(?:[,;&]|\band\b) ?(?:and )?")
_BEGINNING = re.compile(r"[\\(A-Ja-jOo]")
_MAX_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Upper-case letters, marked as such or bare, and the text after a single letter."""

    letters: tuple[str, ...]
    marked: bool
    rest: str = ""


def parse_choice(text: str) -> Choice | None:
    """The letters that a normalized text consists of; None for anything else."""
    if len(text) > _MAX_CHARS or not _BEGINNING.match(text):
        return None
    bare = " ".join(TEXT.sub(r" \1 ", text).split())
    if re.fullmatch("A?B?C?D?E?F?G?H?I?J?", bare) and len(bare) > 1:
        return Choice(letters=tuple(bare), marked=False)
    parts = [_ONE.fullmatch(part) for part in _JOINT.split(bare)]
    letters = [(part[1] or part[2]).upper() for part in parts if part and not part[3]]
    if len(letters) == len(parts):
        return Choice(letters=tuple(sorted(letters)), marked=bare != text or len(bare) > 1)
    found = _ONE.fullmatch(bare)
    if found and found[3] and (found[1] or found[2]).isupper():
        return Choice(letters=(found[1] or found[2],), marked=True, rest=found[3])
    return None


def by_choice(gold: str, answer: str) -> bool | None:
    """True if two texts choose the same letters; None unless one of them is marked as a choice."""
    one, other = parse_choice(gold), parse_choice(answer)
    if one is None or other is None or not (one.marked or other.marked):
        return None
    return one.letters == other.letters


def without_letter(gold: str, answer: str) -> tuple[str, str]:
    """Both texts without their letters, if only one of them has a letter."""
    one, other = parse_choice(gold), parse_choice(answer)
    if (one is None) != (other is None):
        gold = one.rest or gold if one else gold
        answer = other.rest or answer if other else answer
    return gold, answer
