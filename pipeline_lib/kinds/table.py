"""All kinds of answers. A new kind is one module of this package and one entry here."""

from collections.abc import Mapping
from typing import Any

from pipeline_lib.kinds.arc import ARC
from pipeline_lib.kinds.code import CODE
from pipeline_lib.kinds.countdown import COUNTDOWN
from pipeline_lib.kinds.kind import Gold, Kind
from pipeline_lib.kinds.math import MATH

KINDS: Mapping[str, Kind[Any]] = {kind.name: kind for kind in (MATH, COUNTDOWN, CODE, ARC)}
_BY_GOLD: Mapping[type[Gold], Kind[Any]] = {kind.gold: kind for kind in KINDS.values()}


def kind_of(gold: Gold) -> Kind[Any]:
    """The kind whose golds have the type of ``gold``."""
    return _BY_GOLD[type(gold)]
