"""Model text made plain, and the balanced groups in it: what every answer verifier reads first.

Nothing here knows what a right answer is. All functions are total (any string is fine, lone
surrogates included) and linear in the length of the text.
"""

import re
import unicodedata

_THOUGHT_END = "</think>"
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
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
    """Compatibility forms, digits of any script, minus, times and division signs as ASCII.

    NFKC alone would read ``x²`` as ``x2`` and ``3½`` as ``31/2``; both keep their value here.
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


def after_thought(text: str) -> str:
    """What follows the last ``</think>``; the whole text if that tag never came."""
    return text.rpartition(_THOUGHT_END)[2]


def last_boxed(text: str) -> str | None:
    r"""The content of the last ``\boxed{...}`` whose braces balance, or of a bare ``\boxed 7``.

    A box that was cut off by the token limit is passed over. At most 20 boxes are looked at, each
    20,000 characters deep, so hostile text costs no more than long text.
    """
    end = len(text)
    for _ in range(_MAX_BOXES):
        start = text.rfind("\\boxed", 0, end)
        if start < 0:
            return None
        content = _group_after(text, start + len("\\boxed"))
        if content is not None:
            return content
        end = start
    return None


def _group_after(text: str, position: int) -> str | None:
    tail = text[position : position + _MAX_BOX_CHARS]
    opened = tail.lstrip()
    if opened.startswith("{"):
        return _balanced(opened)
    bare = re.match(r"[ ]*([^\s{}$\\]+)", tail)
    return bare[1].rstrip(".,;") if bare else None


def _balanced(text: str) -> str | None:
    depth = 0
    for brace in _BRACES.finditer(text):
        if brace[0] == "{":
            depth += 1
        elif brace[0] == "}":
            depth -= 1
            if depth == 0:
                return text[1 : brace.start()]
    return None
