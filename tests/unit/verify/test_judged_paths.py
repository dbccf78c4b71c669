"""Sampled paths get one verdict each; what was never drawn is never wrong."""

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import FinishReason, Path, Problem, Provenance
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.dispatch import judge_paths, open_verifier, verdict_rows

PROBLEM = Problem(
    id="c", question="?", gold=CountdownGold(numbers=(3, 5, 3), target=24), source="test"
)
PROVENANCE = Provenance(
    model="m", template="t", seed=1, temperature=1.0, top_p=1.0, max_new_tokens=8
)


def path(index, text, *, error=None):
    return Path(
        problem_id="c",
        index=index,
        text=text,
        prompt_tokens=1,
        completion_tokens=1,
        logprob=None,
        finish_reason=FinishReason.ERROR if error else FinishReason.STOP,
        provenance=PROVENANCE,
        error=error,
    )


def test_each_path_has_its_verdict_and_failures_score_nothing():
    """Right, failed, wrong: in this order, with None for the one that our side did not draw."""
    paths = [path(0, "3+5=8\n8*3=24"), path(1, "", error="engine died"), path(2, "3+5=9")]
    with open_verifier(VerifyParams()) as verifier:
        verdicts = judge_paths(paths, [PROBLEM], verifier)
    assert [verdict.strict for verdict in verdicts] == [True, None, False]
    assert [verdict.lenient for verdict in verdicts] == [True, None, False]
    assert verdicts[1].status is Status.VERIFIER_ERROR
    assert "engine died" in verdicts[1].detail
    rows = verdict_rows(paths, verdicts)
    assert [(row["problem_id"], row["index"]) for row in rows] == [("c", 0), ("c", 1), ("c", 2)]
