"""Steps of a Countdown solution, evaluated without the library."""

import operator
import re
from fractions import Fraction

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": Fraction}


def replay(numbers: tuple[int, ...], text: str) -> list[Fraction]:
    """The numbers that are left after applying the steps to a multiset."""
    values = [Fraction(number) for number in numbers]
    for line in text.split("\n"):
        left, sign, right, result = re.fullmatch(r"(\d+)([-+*/])(\d+)=(\d+)", line).groups()
        values.remove(Fraction(left))
        values.remove(Fraction(right))
        assert OPERATIONS[sign](int(left), int(right)) == int(result)
        values.append(Fraction(result))
    return values
