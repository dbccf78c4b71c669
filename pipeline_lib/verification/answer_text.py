"""Normalization of model text, fenced blocks and boxes: the first step of every verifier.

All functions accept any string, lone surrogates included, and take linear time.
"""

import re
import unicodedata
from dataclasses import dataclass

from markdown_it import MarkdownIt

_MAX_LIST_CHARS = 1 << 17
"""Lists are not read in longer texts: a text of list items alone takes 0.4 s for so many."""
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
    """A fenced block of Markdown, without the indentation of the list that holds it."""

    content: str
    start: int
    """Position of the content in the text."""
    closed: bool


def fenced_blocks(text: str) -> list[FencedBlock]:
    """All fenced blocks of a text whose lines end in a line feed alone, in order, as CommonMark has them.

    If there is none, blocks that are indented like code count. A bare fence that is alone, with
    nothing behind it, ends a block that was opened before the text began.
    """
    if "```" not in text and "~~~" not in text:
        return []
    structure = ["fence", "blockquote", *(["list"] if len(text) <= _MAX_LIST_CHARS else [])]
    blocks = _blocks(text, [*structure, "code"]) or _blocks(text, structure)
    match blocks:
        case [FencedBlock(content="", closed=False)] if text.rstrip().endswith(("\n```", "\n~~~")):
            end = text.rstrip().rfind("\n") + 1
            return [FencedBlock(content=text[:end], start=0, closed=False)]
        case _:
            return blocks


def _blocks(text: str, structure: list[str]) -> list[FencedBlock]:
    whole = text if text.endswith("\n") else text + "\n"
    tokens = MarkdownIt("zero").enable(structure).disable(["inline", "normalize"]).parse(whole)
    starts = [0, *(end.end() for end in re.finditer("\n", whole))]
    return [
        FencedBlock(
            content=token.content,
            start=min(starts[token.map[0] + 1], len(text)),
            closed=token.map[1] - token.map[0] == token.content.count("\n") + 2,
        )
        for token in tokens
        if token.type == "fence" and token.map is not None
    ]


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
