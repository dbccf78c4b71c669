"""Steps of a Countdown solution, carried out without the library."""

import operator
import re
from fractions import Fraction

OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": Fraction}


def replay(numbers: tuple[int, ...], text: str) -> list[Fraction]:
    """Carry out the steps on a multiset, by arithmetic alone; what is left at the end."""
    values = [Fraction(number) for number in numbers]
    for line in text.split("\n"):
        left, sign, right, result = re.fullmatch(r"(\d+)([-+*/])(\d+)=(\d+)", line).groups()
        values.remove(Fraction(left))
        values.remove(Fraction(right))
        assert OPERATIONS[sign](int(left), int(right)) == int(result)
        values.append(Fraction(result))
    return values
