"""Answers of the third siege by class: shares of wrong ones accepted, right ones refused or null.

python -m benchmarks.siege_math --show
"""

from benchmarks.lib.command_line import make_parser
from benchmarks.lib.math_pairs import seams, spellings, values
from benchmarks.math_verifier_errors import print_classes

CLASSES = (*values.CLASSES, *spellings.CLASSES, *seams.CLASSES)


def main() -> None:
    """Print one row per class, and with --show every misjudged answer."""
    parser = make_parser(__doc__)
    parser.add_argument("--show", action="store_true", help="print every misjudged pair")
    print_classes(CLASSES, show=parser.parse_args().show)


if __name__ == "__main__":
    main()
