"""Parts of a path that can be checked one by one, by the function ``parts`` of a task."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import TypeAdapter

from pipeline_lib.errors import errors_at
from pipeline_lib.own.calls import Call, OwnCode
from pipeline_lib.own.code import Source
from pipeline_lib.params.paths import OwnLimits
from pipeline_lib.problems.own_task import PARTS
from pipeline_lib.records import Problem
from pipeline_lib.verify.own import answer_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a path."""

    text: str | None
    """Compared by a vote; None: the path has no such part."""
    formed: bool
    """It can be read."""
    true: float
    """Share of its statements that follow from its choice."""
    claims: bool
    """It says that its choice is right."""
    right: bool
    """Its choice is right, whatever it says."""

    @property
    def is_sound(self) -> bool:
        """Right, and all that it says is true."""
        return self.formed and self.right and self.claims and self.true == 1


Parts = Sequence[Part]
"""Of one path, as many as the problem has."""
PartsOf = Mapping[tuple[str, str], Parts]
"""By id of a problem and text."""
_PARTS: TypeAdapter[list[Part]] = TypeAdapter(list[Part])


def check_parts(
    task: Source, texts: Iterable[tuple[Problem, str]], limits: OwnLimits, *, workers: int
) -> PartsOf:
    """The parts of each text; BadInputError: the function fails, or gives something else."""
    answers = {(problem.id, text): answer_in(problem.gold) for problem, text in texts}
    calls = [Call(function=PARTS, args=[answer, key[1]]) for key, answer in answers.items()]
    with OwnCode(task, limits, workers=workers) as code:
        results = dict(zip(answers, code.call(calls), strict=True))
    found = {}
    for key, result in results.items():
        with errors_at(where := f"{task.name}: {PARTS} of an answer to problem {key[0]}"):
            found[key] = _PARTS.validate_python(result.checked(where))
    return found
