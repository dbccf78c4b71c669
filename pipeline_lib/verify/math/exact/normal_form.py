r"""Normal form of a written answer, and the exact value of a plain number; no SymPy.

All functions take linear time for any text, because they run in the parent process, which has no
deadline. Numbers with words around them are read by `quantity`.
"""

import re
import unicodedata
from collections.abc import Callable
from fractions import Fraction

from pipeline_lib.verify.answer_text import plain

MAX_CHARS = 20_000
"""Characters that are read; `math.judge` refuses far shorter answers."""
MAX_EXACT_CHARS = 450
_MAX_POWER_OF_TEN = 400
_MAX_PERIOD = 60


_GREEK = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho varsigma
    sigma tau upsilon phi chi psi omega
""".split()  # noqa: SIM905 - words to be read
_SYMBOLS = str.maketrans(
    {
        "≠": "\\neq ", "≤": "\\le ", "≥": "\\ge ", "∞": "\\infty ", "∅": "\\emptyset ", "∪": "\\cup ",  # noqa: RUF001
        "∩": "\\cap ", "∈": "\\in ", "≈": "\\approx ", "≡": "\\equiv ", "°": "^\\circ ", "…": "\\ldots ",
        "′": "'", "’": "'", "″": "''", "±": "\\pm ", "∠": "\\angle ", "→": "\\to ", "∛": "\\sqrt[3]",  # noqa: RUF001
        "\u066b": ".", "、": ",", **{chr(c): f"\\{name} " for c, name in enumerate(_GREEK, 0x3B1)},
        **{chr(c): f"\\{name.capitalize()} " for c, name in enumerate(_GREEK, 0x391)},
    }
)  # fmt: skip
_BEFORE_FOLDING = {
    ord(sign): f"\\mathbb{{{name}}}"
    for sign, name in zip("\u211d\u2124\u2115\u211a\u2102", "RZNQC", strict=True)
} | {
    ord(sign): " \\frac{{{}}}{{{}}}".format(*unicodedata.normalize("NFKC", sign).split("\u2044"))
    for sign in "¼½¾⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
}
_SUBSCRIPTS = re.compile("[₀-₉]+")
_ROOT = re.compile(r"√ ?(?:\(([^()]*)\)|(\d+(?:\.\d+)?|\w))")
_OPENING = re.compile(r"^(?:\$\$?|\\\(|\\\[) ?")
_CLOSING = re.compile(r" ?(?<!\\)(?:\$\$?|\\\)|\\\])$")
_MARKED = re.compile(r"[\\{~]|\. ?\.|\*\*")
_RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r",\\! ?|(?<!\\)\\! ?|\{,\}|(?<=\d)(?:\\[,;:]|\{\\,\})(?=\d{3}(?!\d))", ","),
        (r"\\(?:left|right)(?![a-z])\.?|\\[bB]igg?[lr]?(?![a-z])", ""),
        (r"\\(?:displaystyle|textstyle|boldsymbol|bm|underline|fbox|boxed|limits)(?![A-Za-z])", ""),
        (r"\\(?:checkmark|therefore|small|[lL]arge|LARGE|[hH]uge)(?![A-Za-z])", ""),
        (r"\\(?:phantom|[hv]space|label|tag|(?:text)?color(?:box)?) ?\{[^{}]{0,40}\}", ""),
        (r"(?: |~|(?<!\\)\\[,;:> ]|\\q?quad(?![a-z]))+", " "),
        (r"\{:\}", ":"),
        (r"\\[dtc]frac", r"\\frac"),
        (r"\\(?:mbox|bold|text(?:bf|rm|it|sf|normal)?|math(?:rm|bf|it)) ?\{", r"\\text{"),
        (r"\^ ?(?:\\circ(?![a-z])|\{ ?\\circ ?\})|\\degrees?(?![a-z])", r"^\\circ"),
        (r"\\(?:ldots|dots[bcmio]?|cdots)(?![a-z])", r"\\ldots"),
        (r"\\(?:(?:thick)?approx(?:eq)?|simeq|doteq)(?![A-Za-z])", r"\\approx"),
        (r"\\lbrace(?![a-z]) ?", r"\\{"),
        (r" ?\\rbrace(?![a-z])", r"\\}"),
        (r"\\backslash(?![a-z])", r"\\setminus"),
        (r"\\(?:varnothing|empty)(?![a-z])|\\\{ ?\\\}", r"\\emptyset"),
        (r"\\frac ?(\d|[A-Za-z]|\\[A-Za-z]++) ?(?=\{|\\|[A-Za-z]|\d(?!\d))", r"\\frac{\1}"),
        (r"(\\frac ?\{[^{}]*\}) ?([A-Za-z]|\d(?!\d)|\\[A-Za-z]++(?! ?\{))", r"\1{\2}"),
        (r"\\text ?\{ ?(?=\\(?:frac|sqrt|pi|left|\())", "{"),
        (r"\\text\{ ?\{([^{}]*)\} ?\}", r"\\text{\1}"),
        (r"\\imath(?![a-z])|\\math(?:rm|it|bf) i(?![a-z])", "i"),
        (r"\\mathbb ?([A-Z])", r"\\mathbb{\1}"),
        (r"\\(vec|hat|bar|tilde|d?dot|overline) ?([A-Za-z])(?![A-Za-z])", r"\\\1{\2}"),
        (r"\.(?: ?\.){2,}", r"\\ldots"),
        (r" ?\*\* ?", "^"),
    )
]
TEXT = re.compile(r"\\text\{([^{}]*)\}")
_ORNAMENT = re.compile(
    r"^\\(?:Rightarrow|implies|ast|star|bullet)(?![A-Za-z]) ?| ?\\(?:blacksquare|square|ast|star|bullet)(?![A-Za-z])$"
)
_NO_SOLUTION = re.compile(
    r"(?:\\text\{)? ?(?:there (?:is|are) )?no (?:real )?solutions? ?\}?", re.IGNORECASE
)
_ALL_REALS = re.compile(r"(?:\\text\{)? ?all real(?: numbers|s) ?\}?", re.IGNORECASE)
_PREFIX = re.compile(
    r"(\\text ?\{ ?)?(?:(?:so|thus|hence|therefore|the|my|our|final|correct|right),? ){0,4}"
    r"(?:answer|result|solution|option|choice|答案)s?(?: ?(?:is|are|:|=)(?: ?:)?)(?: |(?=[\W\d])) ?(\} ?)?",
    re.IGNORECASE,
)
_JOINING = re.compile(r"\d|\b(?:or|and|either)\b")
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])")
_DECIMAL = r"(?:\d++(?:\.\d*+)?+|\.\d++)"
_SIGN = re.compile(r"([-+]?) ?")
_NUMBER = re.compile(rf"\d{{1,3}}(?: \d{{3}})+|{_DECIMAL}")
_FRACTION = re.compile(
    rf"(?:(\d++) ?(?:\+ ?)?)?\\frac ?\{{ ?(-?{_DECIMAL}) ?\}} ?\{{ ?({_DECIMAL}) ?\}}"
    rf"|(?:(\d++) (?:\+ ?)?)?({_DECIMAL}) ?/ ?({_DECIMAL})"
)
_SCIENTIFIC = re.compile(
    rf"({_DECIMAL})? ?(?:(?:(?<=\d ) ?|(?<=\d))(?:\\times|\\cdot|\*) ?10 ?\^ ?\{{? ?|10 ?\^ ?\{{? ?|(?<=[\d.])[eE])([-+]?\d{{1,3}}) ?\}}?"
)
_E_NOTATION = re.compile(rf"^([-+]?{_DECIMAL})[eE]\+?(-?\d{{1,3}})$")
_REPEATING = re.compile(
    r"(\d*)\.(\d*?)(?:\\(?:overline|bar|dot) ?(?:\{ ?(\d+) ?\}|(\d))|\((\d+)\))"
)
_CONTINUED = re.compile(r"(\d{0,40})\.(\d{3,60}) ?\\ldots")


def normalize(answer: str) -> str:
    """Normal form of an answer: characters, spacing, fraction commands, thousands."""
    text = _without_symbols(answer[:MAX_CHARS])
    # Runs of white space first: the patterns below expect single spaces.
    text = " ".join(text.split()).strip("*` ")
    if text.isdecimal():
        return text
    if len(text) > 1:
        text = _CLOSING.sub("", _OPENING.sub("", _CLOSING.sub("", _OPENING.sub("", text))))
    if _MARKED.search(text):
        for pattern, replacement in _RULES:
            text = pattern.sub(replacement, text)
        # In "5\text{ or 6}" the second value would pass for a unit.
        text = TEXT.sub(lambda t: f" {t[1]} " if _JOINING.search(t[1]) else t[0], text)
        text = " ".join(text.split())
    # "(1,234)" may be a point.
    if not text.startswith(("(", "[", "{", "\\{")):
        text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
    return _without_frame(text.strip())


def _without_frame(text: str) -> str:
    """The text without "the answer is", braces or signs around it, in one spelling for all."""
    if (text[:1].isalpha() or text.startswith("\\text")) and (prefix := _PREFIX.match(text)):
        opened = "\\text{" if prefix[1] and not prefix[2] else ""
        text = opened + text[prefix.end() :]
    text = _ORNAMENT.sub("", text.removeprefix("\\approx").removeprefix("=").strip())
    text = _without_braces(text)
    if "olution" in text or "real" in text:
        text = _ALL_REALS.sub(r"\\mathbb{R}", _NO_SOLUTION.sub(r"\\emptyset", text))
    text = _E_NOTATION.sub(r"\1\\cdot 10^{\2}", text)
    return text.removesuffix(".").rstrip() if len(text) > 1 else text


def _without_symbols(text: str) -> str:
    """The text with LaTeX commands in place of mathematical symbols."""
    if text.isascii():
        return text
    bare = text.strip()
    if len(bare) == 1 and (value := unicodedata.numeric(bare, None)) is not None:
        return str(Fraction(value).limit_denominator())
    text = _SUBSCRIPTS.sub(lambda run: f"_{{{unicodedata.normalize('NFKC', run[0])}}}", text)
    text = plain(text.translate(_BEFORE_FOLDING)).translate(_SYMBOLS)
    return _ROOT.sub(r"\\sqrt{\1\2}", re.sub(r" (?=[_^])", "", text))


def _without_braces(text: str, nested: int = 3) -> str:
    """The content of braces around the whole text, however many."""
    depth = 0
    for place, character in enumerate(text if text.startswith("{") else ""):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            whole = place == len(text) - 1
            return _without_braces(text[1:-1].strip(), nested - 1) if whole and nested else text
    return text


def exact_value(text: str) -> Fraction | None:
    """The value of a normalized number, fraction, mixed number or power of ten; else None."""
    if text.isdecimal() and len(text) <= MAX_EXACT_CHARS:
        return Fraction(int(text))
    number = leading_number(text)
    return None if number is None or number[1] else number[0]


def leading_number(text: str) -> tuple[Fraction, str] | None:
    """The value of the longest number at the start of a normalized text, and what follows it."""
    head = text[:MAX_EXACT_CHARS]
    sign = _SIGN.match(head)
    start = sign.end() if sign else 0
    best: tuple[int, Fraction] | None = None
    for pattern, read in _READERS:
        if best and best[0] == len(head):
            break
        found = pattern.match(head, start)
        if found and (best is None or found.end() > best[0]):
            value = read(found)
            best = best if value is None else (found.end(), value)
    if best is None:
        return None
    return -best[1] if text[0] == "-" else best[1], text[best[0] :]


def _fraction(match: re.Match[str]) -> Fraction | None:
    whole = match[1] or match[4]
    above, below = (match[2], match[3]) if match[2] is not None else (match[5], match[6])
    if Fraction(below) == 0 or (whole and above.startswith("-")):
        return None
    return Fraction(whole or 0) + Fraction(above) / Fraction(below)


def _scientific(match: re.Match[str]) -> Fraction | None:
    power = int(match[2])
    if abs(power) > _MAX_POWER_OF_TEN:
        return None
    return Fraction(match[1] or 1) * Fraction(10) ** power


def _repeating(match: re.Match[str]) -> Fraction | None:
    r"""``0.1\overline{6}``, ``0.(3)``, or a period written out three times, as in ``0.333\ldots``."""
    whole, before, *periods = match.groups()
    period = next(filter(None, periods), "")
    if not periods:
        sizes = range(1, len(before) // 3 + 1)
        size = next((n for n in sizes if before.endswith(before[-n:] * 3)), 0)
        before, period = before[: -3 * size], before[len(before) - size :]
    if not 0 < len(period) <= _MAX_PERIOD:
        return None
    part = int(before or 0) + Fraction(int(period), 10 ** len(period) - 1)
    return int(whole or 0) + part / Fraction(10 ** len(before))


_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Fraction | None]], ...] = (
    (_NUMBER, lambda match: Fraction(match[0].replace(" ", ""))),
    (_FRACTION, _fraction),
    (_SCIENTIFIC, _scientific),
    (_REPEATING, _repeating),
    (_CONTINUED, _repeating),
)
