"""All kinds of answers. A new kind is one module of this package and one entry here."""

from collections.abc import Iterable, Mapping
from typing import Any

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.arc import ARC
from pipeline_lib.kinds.code import CODE
from pipeline_lib.kinds.countdown import COUNTDOWN
from pipeline_lib.kinds.hops import HOPS
from pipeline_lib.kinds.kind import Gold, Kind
from pipeline_lib.kinds.math import MATH
from pipeline_lib.kinds.own import OWN
from pipeline_lib.kinds.program import PROGRAM
from pipeline_lib.kinds.task_sets import GYM, VERIFIERS

KINDS: Mapping[str, Kind[Any]] = {
    kind.name: kind for kind in (MATH, COUNTDOWN, CODE, ARC, PROGRAM, OWN, GYM, VERIFIERS, HOPS)
}
_BY_GOLD: Mapping[type[Gold], Kind[Any]] = {kind.gold: kind for kind in KINDS.values()}


def kind_of(gold: Gold) -> Kind[Any]:
    """The kind whose golds have the type of ``gold``."""
    return _BY_GOLD[type(gold)]


def find_kind(name: object, *, where: str) -> Kind[Any]:
    """The kind of that name; BadInputError about ``where`` if there is none."""
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise BadInputError(f"{where}: kind={name!r}; expected one of {', '.join(KINDS)}")
    return kind


def judge_modules() -> tuple[str, ...]:
    """Modules of judges and answer forms, which `verify.judges` imports by name."""
    return _modules(name for kind in KINDS.values() for name in (kind.judge, kind.answer_form))


def gold_check_modules() -> tuple[str, ...]:
    """Modules of gold checks, which `verify.golds` imports by name."""
    return _modules(kind.gold_check for kind in KINDS.values())


def _modules(names: Iterable[object]) -> tuple[str, ...]:
    return tuple(sorted({name.partition(":")[0] for name in names if isinstance(name, str)}))
