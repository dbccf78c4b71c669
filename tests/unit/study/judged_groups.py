"""Small judged groups for tests of evaluation and reporting, written as one letter a path.

c: right; f: right, but not in the asked format (lenient only); w: wrong; l: wrong and cut off at
the length limit; x: the verifier failed; e: the engine failed.
"""

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.records import FinishReason, Group, JudgedPath, Path, Problem, Provenance
from pipeline_lib.verdicts import Status, Verdict

PROVENANCE = Provenance(
    model="0123456789abcdef",
    template="fedcba9876543210",
    seed=1,
    temperature=1.0,
    top_p=1.0,
    max_new_tokens=48,
)
_FINISH = {"l": FinishReason.LENGTH, "e": FinishReason.ERROR}
_VERDICTS = {
    "c": Verdict(status=Status.CORRECT, strict=True, lenient=True, extracted="3+5=8"),
    "f": Verdict(status=Status.WRONG, strict=False, lenient=True, extracted="8", rule="last"),
    "w": Verdict(status=Status.WRONG, strict=False, lenient=False, extracted="3*5=15"),
    "l": Verdict(status=Status.UNPARSED, strict=False, lenient=False, extracted=None),
    "x": Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None, detail="judge died"),
    "e": Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None, detail="engine died"),
}


def judged_path(problem_id: str, index: int, letter: str, *, text: str = "3+5=8") -> JudgedPath:
    """One path with the verdict of ``letter``; it has 10 + index tokens."""
    path = Path(
        problem_id=problem_id,
        index=index,
        text="" if letter == "e" else text,
        finish_reason=_FINISH.get(letter, FinishReason.STOP),
        prompt_tokens=5,
        completion_tokens=10 + index,
        logprob=None,
        provenance=PROVENANCE,
    )
    return JudgedPath(path=path, verdict=_VERDICTS[letter])


def judged_group(problem_id: str, letters: str, *, text: str = "3+5=8") -> Group:
    """One group with a path for each letter."""
    problem = Problem(
        id=problem_id,
        question="Reach 8 with 3, 5.",
        gold=CountdownGold(numbers=(3, 5), target=8),
        source="countdown",
    )
    members = [judged_path(problem_id, i, letter, text=text) for i, letter in enumerate(letters)]
    return Group(problem=problem, members=members)
