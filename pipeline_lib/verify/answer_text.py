"""Normalization of model text, fenced blocks and boxes: the first step of every verifier.

All functions accept any string, lone surrogates included, and take linear time.
"""

import functools
import itertools
import re
import unicodedata
from dataclasses import dataclass

from markdown_it import MarkdownIt

_MAX_LIST_CHARS = 1 << 17
"""Longer texts are parsed without lists: a text of this length with only list items takes 0.4 s."""
_THOUGHT = r"(?:\w{1,10}:)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|reflection)(?:\|?>|\]|▷)"
_THOUGHT_START = re.compile(
    rf"(?:<(?:\|begin_of_)?|\[|◁){_THOUGHT}|<\|?channel\|?>\s?(?:analysis|thought)", re.IGNORECASE
)
_THOUGHT_END = re.compile(
    rf"(?:<(?:/|\|end_of_)|\[/|◁/){_THOUGHT}|<\|channel\|>\s?final\s?<\|message\|>|<channel\|>",
    re.IGNORECASE,
)
"""Tags of reasoning, of several families of models."""
_TAG = re.compile("<[/|a-zA-Z\uff5c]")
_BRACKET_TAG = re.compile(r"\[/?(?:THINK|INST|TOOL_|think|reason)")
_TOOL_CALL = re.compile(
    r"<(tool_call|tool_response|function_call|tool_code)>.*?(?:</\1>|\Z)|\[TOOL_CALLS\][^\n]*",
    re.DOTALL,
)
_END_OF_TURN = re.compile(
    r"<\|(?:im_end|eot_id|eom_id|end|end_of_text|endoftext|return|end_of_turn)\|>|</s>|<end_of_turn>|<eos>"
    r"|<\uff5cend\u2581of\u2581sentence\uff5c>"
)
_CHAT_TOKEN = re.compile(r"<\|[a-z_]{1,30}\|>|</?s>|<(?:bos|eos|pad)>|\[/?INST\]")
_MAX_MARKS = 30
"""Combining marks in a row, as in the stream-safe text format of Unicode (UAX 15)."""
_LONG_RUN = re.compile(rf"[^\x00-\x7f]{{{_MAX_MARKS + 1}}}")
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_BOXED = "\\boxed"
_BARE = re.compile(r"[ ]*([^\s{}$\\.,;]+(?:[.,]\d+)*)")
_JOINT = re.compile(r"(?:[\s$,;.]|\\[()\[\]]|\\text\{|\}|\band\b|\bor\b)*")
_MAX_JOINT_CHARS = 40
_MAX_BOXES = 20
_MAX_BOX_CHARS = 20_000
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")
_OTHER_DIGIT = re.compile(r"(?![0-9])\d")
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
    if _LONG_RUN.search(text):
        # NFKC sorts a run of marks in quadratic time.
        runs = itertools.groupby(text, lambda character: unicodedata.combining(character) > 0)
        text = "".join(
            "".join(itertools.islice(run, _MAX_MARKS if marks else None)) for marks, run in runs
        )
    text = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    return _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)


def strip_reasoning(text: str) -> str:
    """The text outside the reasoning: after its last end, before one that was never ended.

    Without any other text, reasoning that was never ended is returned as it is.
    """
    return _visible(text)[0] if _may_be_tagged(text) else text


def final_turn(text: str) -> tuple[str, bool]:
    """The first turn outside the reasoning, without tool calls and the tokens of a chat.

    True if the text is nothing but reasoning that was never ended.
    """
    if not _may_be_tagged(text):
        return text, False
    visible, unfinished = _visible(text)
    visible = _TOOL_CALL.sub(" ", visible)
    ends = (found.start() for found in _END_OF_TURN.finditer(visible))
    end = next((end for end in ends if visible[:end].strip()), len(visible))
    return _CHAT_TOKEN.sub(" ", visible[:end]), unfinished


def _may_be_tagged(text: str) -> bool:
    """False for most texts, sooner than by a pattern for all tags."""
    signs = ("<", _TAG), ("[", _BRACKET_TAG)
    return "◁" in text or any(sign in text and tag.search(text) for sign, tag in signs)


def _visible(text: str) -> tuple[str, bool]:
    rest = text[max((end.end() for end in _THOUGHT_END.finditer(text)), default=0) :]
    opening = _THOUGHT_START.search(rest)
    visible = rest[: opening.start()] if opening else rest
    unfinished = opening is not None and not visible.strip()
    return (rest if unfinished else visible), unfinished


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
    end = text.rstrip()
    is_bare = len(blocks) == 1 and not blocks[0].content and not blocks[0].closed
    if is_bare and end.endswith(("\n```", "\n~~~")):
        return [FencedBlock(content=text[: end.rfind("\n") + 1], start=0, closed=False)]
    return blocks


def _blocks(text: str, structure: list[str]) -> list[FencedBlock]:
    whole = text if text.endswith("\n") else text + "\n"
    tokens = _markdown(*structure).parse(whole)
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


@functools.cache
def _markdown(*structure: str) -> MarkdownIt:
    return MarkdownIt("zero").enable(list(structure)).disable(["inline", "normalize"])


def last_boxes(text: str, command: str = _BOXED) -> list[str]:
    r"""The contents of the last boxes, in order.

    Several are returned only if they are joined by "and", "or" or commas alone. A box that was cut
    off by the token limit is skipped, and so is an empty one after another. At most 20 boxes of
    20,000 characters are read, so hostile text costs no more than long text.
    """
    if command not in text:
        return []
    boxes: list[str] = []
    empty: list[str] = []
    next_start = len(text)
    starts = [found.start() for found in re.finditer(re.escape(command), text)]
    for start in reversed(starts[-_MAX_BOXES:]):
        group = _group_after(text, start + len(command))
        if group is None:
            continue
        content, group_end = group
        if not content.strip() and not boxes:
            empty = [content]
            continue
        # A box inside another one starts before that one ends.
        near = group_end <= next_start <= group_end + _MAX_JOINT_CHARS
        if boxes and not (near and _JOINT.fullmatch(text, group_end, next_start)):
            break
        boxes.insert(0, content)
        next_start = start
    return boxes or empty


def _group_after(text: str, position: int) -> tuple[str, int] | None:
    """Content and end of the group that starts at ``position``."""
    tail = text[position : position + _MAX_BOX_CHARS]
    indent = len(tail) - len(tail.lstrip())
    if not tail.startswith("{", indent):
        bare = _BARE.match(tail)
        return (bare[1], position + bare.end(1)) if bare else None
    depth = 0
    for brace in _BRACES.finditer(tail, indent):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return tail[indent + 1 : brace.start()], position + brace.end()
    return None
