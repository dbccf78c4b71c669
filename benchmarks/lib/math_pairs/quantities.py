r"""Generated pairs for the math verifier: numbers with words, units and signs around them.

Each class is a product of small lists. `benchmarks.math_verifier_errors` counts the errors by class;
the tests assert that there are none.
"""

import itertools
from collections.abc import Iterator

from benchmarks.lib.math_pairs.pair import Pair, boxed

NUMBERS = ("5", "12", "3.5", "-7", "1000", "\\frac{3}{4}")
MULTIPLIERS = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "dozen": 12}
ARITHMETIC = (
    "minus 2",
    "plus 1",
    "times 3",
    "over 2",
    "choose 2",
    "squared",
    "cubed",
    "factorial",
    "root 2",
    "halves",
    "thirds",
    "pi",
    "log 2",
    "divided by 2",
    "mod 3",
    "to the fourth",
    "modulo 4",
    "less 1",
    "tenths",
)
DOUBTS_AFTER = (
    "negative",
    "not",
    "unless x is 0",
    "perhaps",
    "is wrong",
    "maybe",
    "or so",
    "at most",
    "approximately",
    "or more",
    "at least",
    "if even",
    "possibly",
    "is not the answer",
    "is false",
    "excluded",
    "or less",
)
DOUBTS_BEFORE = (
    "not",
    "at most",
    "approximately",
    "about",
    "perhaps",
    "less than",
    "more than",
    "anything but",
    "never",
    "at least",
    "around",
    "minus",
    "negative",
    "twice",
    "half of",
    "nearly",
    "up to",
    "no more than",
    "other than",
)
UNITS = (
    ("m", "m^2"),
    ("cm", "cm^3"),
    ("\\text{ m}", "\\text{ m}^2"),
    ("\\text{ cents}", "\\text{ dollars}"),
    ("cents", "dollars"),
    ("\\text{ cm}", "\\text{ km}"),
    ("hours", "minutes"),
    ("\\text{ kg}", "\\text{ g}"),
    ("\\text{ a.m.}", "\\text{ p.m.}"),
    ("AM", "PM"),
    ("feet", "inches"),
    ("\\text{ square feet}", "\\text{ feet}"),
    ("\\text{ seconds}", "\\text{ meters}"),
    ("^\\circ\\text{C}", "^\\circ\\text{F}"),
    ("mph", "miles"),
    ("\\text{ km/h}", "\\text{ m/s}"),
    ("\\text{ liters}", "\\text{ gallons}"),
    ("\\text{ cubic inches}", "\\text{ square inches}"),
    ("days", "weeks"),
    ("euros", "dollars"),
    ("pounds", "ounces"),
)
SAME_UNITS = (
    ("\\text{ cm}", "cm"),
    ("\\text{ m}^2", "\\text{ square meters}"),
    ("\\text{ cm}^3", "\\text{ cubic centimeters}"),
    ("cents", "\\text{ cents}"),
    ("\\text{ mph}", "\\text{ miles per hour}"),
    ("hours", "\\text{ hr}"),
    ("\\text{ a.m.}", "\\text{ AM}"),
    ("\\text{ km/h}", "\\text{ kilometers per hour}"),
    ("\\mbox{ inches}^2", "\\text{ sq. in.}"),
    ("feet", "\\mathrm{ft}"),
    ("\\text{ units}^2", "\\text{ square units}"),
    ("kg", "\\text{ kilograms}"),
    ("\\text{ minutes}", "min"),
    ("dollars", "\\text{ dollars}"),
)
ALONE = (
    "\\text{ cm}",
    " cm",
    "\\text{ square feet}",
    "\\,\\mathrm{kg}",
    "\\text{ miles per hour}",
    " dollars",
    "\\text{ students}",
    "\\text{ ways}",
    "^\\circ",
    " degrees",
    "\\text{ units}",
    "~\\text{m/s}",
    " hours",
    "\\text{ cm}^2",
    " years",
    " apples",
)


def _joined(number: str, unit: str) -> str:
    return f"{number}{unit}" if unit.startswith(("\\", "^")) else f"{number} {unit}"


def _shown(number: str, words: str) -> Iterator[str]:
    """Words after a number, as text is written."""
    yield f"{number} {words}"
    yield f"{number} \\text{{ {words}}}"
    yield f"\\text{{{number} {words}}}" if "\\" not in number else f"{number}\\mathrm{{ {words}}}"


def multipliers() -> Iterator[Pair]:
    """Multiplier words: the bare number is wrong, the product is right."""
    for number, (word, factor) in itertools.product(("5", "12", "2.5"), MULTIPLIERS.items()):
        value = f"{float(number) * factor:.0f}" if number == "2.5" else str(int(number) * factor)
        for answer in _shown(number, word):
            yield number, boxed(answer), False
            yield value, boxed(answer), True
        yield number, f"The answer is {number} {word}.", False
        yield number, f"#### {number} {word}", False
        yield number, f"So we get {number} {word}", False
        yield value, f"The answer is {number} {word}.", True
        yield f"{number} \\text{{ {word}}}", boxed(number), False
    for number in ("5", "40"):
        yield number, boxed(f"{number} percent"), False
        yield number, boxed(f"{number}\\text{{ percent}}"), False
        yield str(int(number) / 100), boxed(f"{number} percent"), True


def arithmetic_words() -> Iterator[Pair]:
    """Arithmetic in words after the number."""
    for number, words in itertools.product(NUMBERS, ARITHMETIC):
        yield from ((number, boxed(answer), False) for answer in _shown(number, words))


def doubts() -> Iterator[Pair]:
    """Hedges and denials after the number and before it."""
    for number, words in itertools.product(NUMBERS, DOUBTS_AFTER):
        yield from ((number, boxed(answer), False) for answer in _shown(number, words))
    for number, words in itertools.product(NUMBERS, DOUBTS_BEFORE):
        yield number, boxed(f"\\text{{{words} }}{number}"), False
        yield number, boxed(f"{words} {number}"), False


def clashing_units() -> Iterator[Pair]:
    """The same number with units of another dimension or scale."""
    for number, (one, other) in itertools.product(("5", "12", "3.5"), UNITS):
        first, second = (_joined(number, unit) for unit in (one, other))
        yield first, boxed(second), False
        yield second, boxed(first), False
    for number in ("5", "36"):
        yield f"\\${number}", boxed(f"{number}\\text{{ cents}}"), False
        yield f"{number}\\text{{ cents}}", boxed(f"\\${number}"), False
        yield f"\\${number}", boxed(f"€{number}"), False


def agreeing_units() -> Iterator[Pair]:
    """Two names of one unit, units on one side only, and a wrong number with the right unit."""
    for number, (one, other) in itertools.product(("5", "12", "3.5"), SAME_UNITS):
        if number == "3.5" and "a.m." in one:
            continue
        first, second = (_joined(number, unit) for unit in (one, other))
        yield first, boxed(second), True
        yield second, boxed(first), True
        yield first, boxed(f"1{second}"), False
    for number, unit in itertools.product(NUMBERS, ALONE):
        yield number, boxed(f"{number}{unit}"), True
        yield f"{number}{unit}", boxed(number), True
        yield number, boxed(f"1{number.lstrip('-')}{unit}"), False
    for number, unit in itertools.product(("5", "36"), ("cm", "dollars", "students", "sq. ft.")):
        yield number, boxed(f"\\text{{{number} {unit}}}"), True
        yield number, boxed(f"\\text{{ {number}}} \\text{{ {unit}}}"), True


def number_words() -> Iterator[Pair]:
    """Numbers in words, right and wrong ones."""
    written = {
        "5": ("five", "Five", "\\text{five}", "five dollars"),
        "21": ("twenty-one", "twenty one", "\\text{Twenty-one}"),
        "105": ("one hundred five", "one hundred and five", "\\text{a hundred and five}"),
        "12000": ("twelve thousand", "\\text{twelve thousand}"),
        "2/3": ("two thirds", "two-thirds", "\\text{two thirds}"),
        "1/2": ("one half", "one-half", "\\text{half}"),
        "-3": ("negative three", "minus three", "\\text{negative three}"),
        "3.5": ("three and a half", "three and one half"),
        "0": ("zero", "\\text{zero}"),
        "1000000": ("one million", "a million"),
    }
    golds = list(written)
    for place, (gold, answers) in enumerate(written.items()):
        for answer in answers:
            yield gold, boxed(answer), True
            yield golds[(place + 1) % len(golds)], boxed(answer), False


def clock() -> Iterator[Pair]:
    """Times of day."""
    yield from ((gold, boxed(answer), True) for gold, answer in (
        ("9\\text{ a.m.}", "9 AM"), ("9", "9 AM"), ("\\text{9:00 a.m.}", "9 AM"),
        ("\\text{4:30 p.m.}", "4:30 \\text{ PM}"), ("4:30", "4{:}30"), ("4:30", "04:30"),
        ("\\text{9 AM}", "9:00\\text{ AM}"), ("\\text{4:30 p.m.}", "16:30"),
        ("\\text{4:30 p.m.}", "4:30\\,\\mathrm{pm}"), ("2:3", "4:6"),
    ))  # fmt: skip
    for gold, answer in (
        ("4:30", "2:15"), ("4:30", "8:60"), ("1:20", "2:40"), ("3:15", "1:05"), ("6:30", "1:05"),
        ("\\text{4:30 p.m.}", "4:30 AM"), ("\\text{9 AM}", "9 PM"), ("9\\text{ a.m.}", "9 p.m."),
        ("\\text{4:30 p.m.}", "2:15 p.m."), ("4:30", "4.5"), ("4:30", "\\frac{4}{30}"),
        ("2:3", "3:2"), ("0.2", "1:05"), ("\\text{12 p.m.}", "12 a.m."),
    ):  # fmt: skip
        yield gold, boxed(answer), False


CLASSES = (
    multipliers,
    arithmetic_words,
    doubts,
    clashing_units,
    agreeing_units,
    number_words,
    clock,
)
