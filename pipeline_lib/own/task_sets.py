"""Problems of reasoning-gym, and the scores of answers to them.

The Python of the tasks environment imports it, in `own.program` and, to score answers, in a jail; it has the packages
of `make tasks-env`, and none of those of the run. So the top imports the standard library alone.

A task set is a library, a name in it, and options. ``gym`` has data sets by name, with ``level`` of their curriculum and
``config``; without a name the options are a mixture: data sets by name, with ``weight``.
"""

import ast
import builtins
import difflib
import functools
import hashlib
import importlib
import itertools
import json
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

LIBRARIES = ("gym",)
_CHUNK = 500
"""Rows of one seed; a data set may depend on its size."""
_EVALUATING = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion")
"""Data sets whose scorer hands the answer to ``eval``, to read a list."""
_FORMULA = re.compile(r"(?:[\w\s+\-*/^(),]|\.(?!\s*[^\W\d]))*")
"""Without quotes, brackets, attributes."""
_OF_VALUES = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RecursionError, TypeError, ValueError),
)
_NAME = re.compile(r"[^\W\d]\w*")
_CONSTANTS = ("C", "E", "I", "oo", "pi")
"""C is the constant of an integration."""


def read_name(text: str) -> tuple[str, str, dict[str, Any]]:
    """Library, name and options of a set, of ``gym:gcd`` or ``gym:gcd{"level": 2}``; ValueError: it has no such form."""
    library, _, rest = text.partition(":")
    name, brace, options = rest.partition("{")
    return library, name, json.loads(brace + options or "{}")


def write_name(library: str, name: str, options: Mapping[str, Any]) -> str:
    """Inverse of `read_name`."""
    return f"{library}:{name}{json.dumps(options, sort_keys=True) if options else ''}"


def warm(library: str, name: str, options: Mapping[str, Any]) -> None:
    """Import and make what its problems and scores need, before processes are forked."""
    del library
    for one, its in _members(name, options).items():
        _scorer(write_name("gym", one, its))


def problems(
    library: str, name: str, options: Mapping[str, Any], split: str, seed: int
) -> Iterator[dict[str, Any]]:
    """Rows as of the data set `lines`, without an end; those of other splits have other seeds."""
    del library
    members = _members(name, options)
    weights = [its.pop("weight", 1.0) for its in members.values()]
    names = [write_name("gym", one, its) for one, its in members.items()]
    rows = [_gym_rows(one, split, seed) for one in names]
    draw = random.Random(f"{split} {seed}")  # noqa: S311 - reproducible
    while True:
        [number] = draw.choices(range(len(names)), weights)
        row = next(rows[number])
        entry = repr(_literal(row))
        yield {
            "kind": "gym",
            "question": row["question"],
            "answer": {"of": names[number], "entry": entry},
            "solution": row["answer"],
            "set": names[number],
        }


def _members(name: str, options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    members = {name: options} if name else options
    return {one: dict(its) for one, its in members.items()}


def _gym_rows(of: str, split: str, seed: int) -> Iterator[dict[str, Any]]:
    numpy = importlib.import_module("numpy")
    for chunk in itertools.count():
        digest = hashlib.sha256(f"{of} {split} {seed} {chunk}".encode()).digest()
        start = int.from_bytes(digest[:4], "big") >> 1
        dataset = _dataset(of, seed=start, size=_CHUNK)
        for place in range(_CHUNK):
            # Some data sets draw from the global generators.
            random.seed(start + place)  # noqa: TID251 - of a process that does nothing else
            numpy.random.seed(start + place)
            try:
                yield dataset[place]
            except IndexError:  # it has fewer rows of this seed
                break


def _dataset(of: str, **sizes: int) -> Any:
    """The data set of that name; ValueError: there is none."""
    _, name, options = read_name(of)
    factory = _gym()
    known = factory.DATASETS.keys() - {"composite"}
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        raise ValueError(
            f"reasoning-gym has no data set {name!r}" + "".join(f"; did you mean {one}" for one in close)
        )
    config, level = {**options.get("config", {}), **sizes}, options.get("level")
    if level is None:
        return factory.create_dataset(name, **config)
    curriculum = factory.create_curriculum(name)
    curriculum.set_global_level(level)
    return factory.DATASETS[name][0](config=curriculum.generate_configuration(config))


@functools.cache
def _gym() -> ModuleType:
    """Its table of data sets, whose scorers from now on read an answer, and do not run it."""
    importlib.import_module("reasoning_gym")
    sympy, factory = map(importlib.import_module, ("sympy", "reasoning_gym.factory"))
    parse, read = sympy.parse_expr, _formula_reader(sympy)
    sympy.parse_expr = read
    for name, (kind, _) in factory.DATASETS.items():
        names = vars(sys.modules[kind.__module__])
        names |= {"parse_expr": read} if names.get("parse_expr") is parse else {}
        names |= {"eval": ast.literal_eval} if name in _EVALUATING else {}
    return factory


def _formula_reader(sympy: ModuleType) -> Callable[..., Any]:
    """The parser of SymPy, which evaluates Python, for formulas alone; ValueError: the text is none."""
    parse, allowed = sympy.parse_expr, {*sympy.functions.__all__, *_CONSTANTS}

    def read(text: str, *args: Any, **options: Any) -> Any:
        names = {*_NAME.findall(text)} - allowed
        if not _FORMULA.fullmatch(text) or any(map({*dir(sympy), *dir(builtins)}.__contains__, names)):
            raise ValueError("no formula")
        return parse(text, *args, **options)

    return read


def _literal(value: Any) -> Any:
    """A value as Python's own types, which a literal has: tuples stay, numbers of NumPy do not."""
    if isinstance(value, dict):
        return {_literal(key): _literal(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_literal, value))
    return value.tolist() if hasattr(value, "tolist") else value


@functools.lru_cache(maxsize=256)
def _scorer(of: str) -> Any:
    return _dataset(of, seed=0, size=1)


def main() -> None:
    """Score answers to one row, of JSON on standard input; the last line of the output is their scores."""
    request = json.load(sys.stdin)
    scorer = _scorer(request["of"])
    scores = [_score(scorer, one, request["entry"]) for one in request["answers"]]
    sys.stdout.write(f"\n{json.dumps(scores)}\n")


def _score(scorer: Any, answer: str, entry: str) -> float:
    """0 also where the scorer cannot read the answer; its other errors are no verdict."""
    try:
        return float(scorer.score_answer(answer, ast.literal_eval(entry)))
    except _OF_VALUES:
        return 0.0
