"""Check of golds when a data set is built, so that no answer is judged against an unusable gold."""

import pkgutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from pipeline_lib.kinds.kind import Gold, GoldProblem
from pipeline_lib.kinds.table import KINDS


@contextmanager
def open_gold_check() -> Iterator[GoldProblem]:
    """Yield the `GoldProblem` of all kinds; processes of the checks end with the context."""
    with ExitStack() as stack:
        checks: dict[type[Gold], GoldProblem] = {
            kind.gold: stack.enter_context(pkgutil.resolve_name(check)())
            if isinstance(check, str)
            else check
            for kind in KINDS.values()
            if (check := kind.gold_check) is not None
        }

        def gold_problem(gold: Gold) -> str | None:
            check = checks.get(type(gold))
            return check(gold) if check else None

        yield gold_problem
