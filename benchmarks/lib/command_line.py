"""Command-line parts that all benchmarks share."""

import argparse
import json
import pathlib


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose ``--help`` shows the script's docstring with its examples."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add ``--output``, the JSON file of the results."""
    parser.add_argument("--output", type=pathlib.Path, help="write the results as JSON")


def write_results(output: pathlib.Path | None, results: object) -> None:
    """Write ``results`` as JSON, if ``--output`` was given."""
    if output is not None:
        output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
