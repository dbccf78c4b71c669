"""Two written answers compared by math-verify. Only the worker process imports this module.

math-verify's own deadlines are switched off: they are alarms of the calling thread. Here the
worker has its alarm, and the pool kills what does not heed it.
"""

import functools
import itertools
import logging
from collections.abc import Callable
from typing import Any

import sympy
from math_verify import LatexExtractionConfig, parse, verify

from pipeline_lib.verification import math_grammar
from pipeline_lib.verification.math_disproof import surely_different

math_grammar.install()
# Each of them logs a warning that its deadlines are off, once and on purpose.
logging.disable(logging.CRITICAL)

_LATEX = (LatexExtractionConfig(),)


@functools.lru_cache(maxsize=4096)
def parsed_gold(gold: str) -> tuple[Any, ...]:
    """What math-verify reads in ``gold``; empty if it cannot."""
    return _parsed(gold)


def equal(gold: str, answer: str) -> bool | None:
    """Whether math-verify takes ``answer`` for ``gold``; None if it cannot read the answer.

    Raises:
        MemoryError: the process may not have more memory.
    """
    parsed = _parsed(answer)
    if not parsed:
        return None
    golds, answers = list(parsed_gold(gold)), list(parsed)
    pairs = list(itertools.product(golds, answers))
    if _unless_refused(lambda: all(surely_different(*pair) for pair in pairs)):
        return False
    found = _unless_refused(
        lambda: verify(golds, answers, timeout_seconds=None, raise_on_error=True)
    )
    return bool(found)


def _parsed(text: str) -> tuple[Any, ...]:
    found = _unless_refused(
        lambda: parse(
            f"${text}$",
            _LATEX,
            fallback_mode="no_fallback",
            parsing_timeout=None,
            raise_on_error=True,
        )
    )
    return tuple(item for item in found or () if isinstance(item, sympy.Basic | sympy.MatrixBase))


def _unless_refused(work: Callable[[], Any]) -> Any:
    """The result, or None where SymPy refuses, by whichever of its many errors."""
    try:
        return work()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - parsers and simplifiers raise nearly everything
        return None
