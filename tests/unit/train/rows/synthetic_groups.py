"""Synthetic groups, written as one letter per path, for tests of data building."""

from collections.abc import Sequence

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import BuildParams
from pipeline_lib.records import FinishReason, Group, JudgedPath, Path, Problem, Provenance, Row
from pipeline_lib.train.rows.builders import BuildContext
from pipeline_lib.verdicts import Status, Verdict

VERDICTS = {
    "r": Verdict(status=Status.CORRECT, strict=True, lenient=True),
    "f": Verdict(status=Status.CORRECT, strict=False, lenient=True),
    "o": Verdict(status=Status.WRONG, strict=False, lenient=True),
    "w": Verdict(status=Status.WRONG, strict=False, lenient=False),
    "x": Verdict(status=Status.CRASHED, strict=False, lenient=False),
    "u": Verdict(status=Status.UNPARSED, strict=False, lenient=False),
    "m": Verdict(status=Status.MALFORMED, strict=False, lenient=False),
    "h": Verdict(status=Status.REWARD_HACK, strict=False, lenient=False),
    "e": Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None),
    "R": Verdict(status=Status.CORRECT, strict=True, lenient=True),
    "W": Verdict(status=Status.WRONG, strict=False, lenient=False),
}
"""Right, wrong in format only (by either status), wrong, crashed, unparsed, malformed, hack, error.
Capitals: truncated."""


def make_path(problem_id: str, index: int, text: str, *, truncated: bool = False) -> Path:
    provenance = Provenance(
        model="policy", template="plain", seed=100 + index, temperature=1, top_p=1, max_new_tokens=9
    )
    return Path(
        problem_id=problem_id,
        index=index,
        text=text,
        finish_reason=FinishReason.LENGTH if truncated else FinishReason.STOP,
        prompt_tokens=3,
        completion_tokens=5,
        logprob=-1.5,
        provenance=provenance,
    )


def make_problem(name: str) -> Problem:
    return Problem(id=name, question=f"Q {name}?", gold=MathGold(answer="1"), source="made")


def make_group(name: str, letters: str, texts: Sequence[str] | None = None) -> Group:
    """One path per letter of ``VERDICTS``; without ``texts`` all differ and have equal length."""
    texts = texts or [f"{letter} {index:03d}" for index, letter in enumerate(letters)]
    members = [
        JudgedPath(
            path=make_path(name, index, text, truncated=letter.isupper()),
            verdict=VERDICTS[letter],
        )
        for index, (letter, text) in enumerate(zip(letters, texts, strict=True))
    ]
    return Group(problem=make_problem(name), members=members)


def make_context(*, seed: int = 7, worked: Sequence[Row] = (), **params: object) -> BuildContext:
    return BuildContext(
        params=BuildParams.model_validate(params),
        render=lambda problem: f"{problem.question}\n",
        seed=seed,
        verifier_version="v1",
        worked=worked,
    )
