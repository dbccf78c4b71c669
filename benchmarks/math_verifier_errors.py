"""Error rates of the math verifier by class of generated pairs: false accepts and false rejects.

The pairs are generated (`benchmarks.lib.math_pairs`), so figures of several commits are comparable.

    python -m benchmarks.math_verifier_errors --show --class containers
"""

from collections.abc import Callable, Iterable, Iterator

from benchmarks.lib.command_line import make_parser
from benchmarks.lib.math_pairs import containers, quantities, sentences, symbols
from benchmarks.lib.math_pairs.pair import Pair
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verdicts import Verdict
from pipeline_lib.verify.dispatch import Item, open_verifier

CLASSES: tuple[Callable[[], Iterator[Pair]], ...] = (
    *quantities.CLASSES,
    *symbols.CLASSES,
    *containers.CLASSES,
    *sentences.CLASSES,
)


def main() -> None:
    """Print one row per class, and with --show every misjudged pair."""
    parser = make_parser(__doc__)
    parser.add_argument("--show", action="store_true", help="print every misjudged pair")
    parser.add_argument("--class", dest="name", default="", help="substring of class names")
    arguments = parser.parse_args()
    chosen = [make for make in CLASSES if arguments.name in make.__name__]
    print_classes(chosen, show=arguments.show)


def print_classes(classes: Iterable[Callable[[], Iterator[Pair]]], *, show: bool) -> None:
    """Judge all pairs of the classes, and print a row for each class and one for all."""
    print(f"{'class':32}{'wrong':>7}{'accepted':>10}{'right':>7}{'refused':>9}{'null':>6}")
    total = [0] * 5
    with open_verifier(VerifyParams()) as verifier:
        for make in classes:
            pairs = list(dict.fromkeys(make()))
            items = [Item(gold=MathGold(answer=gold), text=text) for gold, text, _ in pairs]
            row = _row(pairs, verifier.judge(items), show=show)
            total = [one + other for one, other in zip(total, row, strict=True)]
            _print(make.__name__, row)
    _print("all", total)


def _row(pairs: list[Pair], verdicts: list[Verdict], *, show: bool) -> list[int]:
    """Counts: wrong pairs, accepted of them; right pairs, rejected of them, not judged of them."""
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
