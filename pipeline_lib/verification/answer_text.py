"""Normalization of model text, fenced blocks and boxes: the first step of every verifier.

All functions accept any string, lone surrogates included, and take linear time.
"""

import re
import unicodedata
from dataclasses import dataclass

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*$", re.MULTILINE)
_THOUGHT_END = "</think>"
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_BOXED = "\\boxed"
_BARE = re.compile(r"[ ]*([^\s{}$\\.,;]+(?:[.,]\d+)*)")
_JOINT = re.compile(r"(?:[\s$,;.]|\\[()\[\]]|\\text\{|\}|\band\b|\bor\b)*")
_MAX_JOINT_CHARS = 40
_MAX_BOXES = 20
_MAX_BOX_CHARS = 20_000
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_VULGAR = re.compile("([¼½¾⅐-⅞])")
_SIGNS = str.maketrans(
    {
        **dict.fromkeys("−‐‑‒–—﹣－", "-"),  # noqa: RUF001 - look-alikes are the point
        **dict.fromkeys("×✕✖∗⋅·∙•", "*"),  # noqa: RUF001
        **dict.fromkeys("÷∕⁄", "/"),  # noqa: RUF001
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", ""),
    }
)


def plain(text: str) -> str:
    """Convert compatibility forms, digits of any script and arithmetic signs to ASCII.

    Superscripts and fractions keep their value; NFKC alone reads ``x²`` as ``x2``, ``3½`` as
    ``31/2``.
    """
    if text.isascii():
        return text
    text = _SUPERSCRIPT_RUN.sub(lambda run: f"^{{{run[0].translate(_SUPERSCRIPTS)}}}", text)
    text = _VULGAR.sub(r" \1", text).translate(_SIGNS)
    text = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    return "".join(map(_ascii_digit, text))


def _ascii_digit(character: str) -> str:
    if character.isascii():
        return character
    value = unicodedata.decimal(character, None)
    return character if value is None else str(value)


def strip_reasoning(text: str) -> str:
    """The text after the last ``</think>``; the whole text without that tag."""
    return text.rpartition(_THOUGHT_END)[2]


def unix_lines(text: str) -> str:
    """``text`` without a byte-order mark, lines ended by a line feed alone."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedBlock:
    """A fenced block of Markdown; the last block of a text may lack its closing fence."""

    content: str
    start: int
    """Position of the content in the text."""
    closed: bool


def fenced_blocks(text: str) -> list[FencedBlock]:
    """All fenced blocks of a text whose lines end in a line feed alone, in order.

    A fence inside a block closes it only if it is bare and at least as long as the opening one. A bare
    fence that is alone, with nothing behind it, ends a block that was opened before the text began.
    """
    blocks: list[FencedBlock] = []
    opening: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opening is None:
            opening = fence
        elif fence[1].startswith(opening[1]) and not fence[2]:
            blocks.append(_block(text, opening, end=fence.start(), closed=True))
            opening = None
    if opening is not None and not (blocks or opening[2] or text[opening.end() :].strip()):
        blocks.append(FencedBlock(content=text[: opening.start()], start=0, closed=False))
    elif opening is not None:
        blocks.append(_block(text, opening, end=len(text), closed=False))
    return blocks


def _block(text: str, opening: re.Match[str], *, end: int, closed: bool) -> FencedBlock:
    start = opening.end() + 1
    return FencedBlock(content=text[start:end], start=start, closed=closed)


def last_boxes(text: str) -> list[str]:
    r"""The contents of the last boxes, in order.

    Several are returned only if they are joined by "and", "or" or commas alone. A box that was cut
    off by the token limit is skipped. At most 20 boxes of 20,000 characters are read, so hostile
    text costs no more than long text.
    """
    boxes: list[str] = []
    next_start = end = len(text)
    for _ in range(_MAX_BOXES):
        start = text.rfind(_BOXED, 0, end)
        if start < 0:
            break
        group = _group_after(text, start + len(_BOXED))
        end = start
        if group is None:
            continue
        content, group_end = group
        if boxes and not _joined(text, group_end, next_start):
            break
        boxes.insert(0, content)
        next_start = start
    return boxes


def _joined(text: str, start: int, end: int) -> bool:
    # A box inside another one starts before that one ends.
    return start <= end <= start + _MAX_JOINT_CHARS and bool(_JOINT.fullmatch(text, start, end))


def _group_after(text: str, position: int) -> tuple[str, int] | None:
    """Content and end of the group that starts at ``position``."""
    tail = text[position : position + _MAX_BOX_CHARS]
    indent = len(tail) - len(tail.lstrip())
    if tail.startswith("{", indent):
        return _balanced(tail, position=position, start=indent + 1)
    bare = _BARE.match(tail)
    return (bare[1], position + bare.end(1)) if bare else None


def _balanced(tail: str, *, position: int, start: int) -> tuple[str, int] | None:
    depth = 1
    for brace in _BRACES.finditer(tail, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return tail[start : brace.start()], position + brace.end()
    return None
