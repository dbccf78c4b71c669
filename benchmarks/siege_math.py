"""Error rates of the math verifier by class of generated pairs: wrong ones accepted, right ones refused.

Every class is generated (`siege_math_quantities`, `_symbols`, `_containers`, `_sentences`), so the
same figures can be had for any commit: run this file with that commit's tree on PYTHONPATH.

    python benchmarks/siege_math.py [--show] [--class NAME]
"""

import argparse
from collections.abc import Callable, Iterator

import siege_math_containers as containers
import siege_math_quantities as quantities
import siege_math_sentences as sentences
import siege_math_symbols as symbols

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verification.dispatch import Item, open_verifier

Pair = tuple[str, str, bool]

CLASSES: tuple[Callable[[], Iterator[Pair]], ...] = (
    *quantities.CLASSES,
    *symbols.CLASSES,
    *containers.CLASSES,
    *sentences.CLASSES,
)


def main() -> None:
    """Print one row a class, and with --show every pair that is judged otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--show", action="store_true", help="each pair that is judged otherwise")
    parser.add_argument("--class", dest="name", default="", help="classes with this in their names")
    arguments = parser.parse_args()
    print(f"{'class':32}{'wrong':>7}{'accepted':>10}{'right':>7}{'refused':>9}{'null':>6}")
    total = [0] * 5
    with open_verifier(VerifyParams()) as verifier:
        for make in CLASSES:
            if arguments.name not in make.__name__:
                continue
            pairs = list(dict.fromkeys(make()))
            items = [Item(gold=MathGold(answer=gold), text=text) for gold, text, _ in pairs]
            row = _row(pairs, verifier.judge(items), show=arguments.show)
            total = [one + other for one, other in zip(total, row, strict=True)]
            _print(make.__name__, row)
    _print("all", total)


def _row(pairs: list[Pair], verdicts: list[Verdict], *, show: bool) -> list[int]:
    """Wrong pairs, those accepted; right pairs, those refused and those not judged."""
    row = [0] * 5
    for (gold, text, right), verdict in zip(pairs, verdicts, strict=True):
        missed = (verdict.lenient is not True) if right else (verdict.lenient is True)
        place = 2 if right else 0
        row[place] += 1
        row[place + 1] += missed and verdict.lenient is not None
        row[4] += right and verdict.lenient is None
        if missed and show:
            word = "refused" if right else "accepted"
            print(f"  {word}: {gold!r} <- {text!r} ({verdict.status}, {verdict.extracted!r})")
    return row


def _print(name: str, row: list[int]) -> None:
    print(f"{name:32}{row[0]:>7}{row[1]:>10}{row[2]:>7}{row[3]:>9}{row[4]:>6}")


if __name__ == "__main__":
    main()
