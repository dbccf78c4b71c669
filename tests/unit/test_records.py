"""Records: flat rows and back, and counts of a group."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.kinds.arc import ARC, ArcGold
from pipeline_lib.kinds.code import CodeGold
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.records import FinishReason, Group, JudgedPath, Path, Problem, Provenance
from pipeline_lib.verdicts import Status, Verdict
from tests.unit.synthetic_grids import grids

texts = st.text(max_size=20)
golds = st.one_of(
    st.builds(MathGold, answer=texts),
    st.builds(CodeGold, entry_point=texts, tests=texts),
    st.builds(
        CountdownGold,
        numbers=st.lists(st.integers(), max_size=6).map(tuple),
        target=st.integers(),
    ),
    st.builds(ArcGold, output=grids(max_side=4)),
)
problems = st.builds(
    Problem,
    id=texts,
    question=texts,
    gold=golds,
    source=texts,
    solution=st.none() | texts,
    columns=st.dictionaries(texts, st.none() | texts | st.integers() | st.lists(st.booleans())),
    turns=st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
)
provenances = st.builds(
    Provenance,
    model=texts,
    template=texts,
    seed=st.integers(),
    temperature=st.floats(0, 2),
    top_p=st.floats(0, 1),
    max_new_tokens=st.integers(1),
    adapter=st.none() | texts,
    engine=st.none() | texts,
)
paths = st.builds(
    Path,
    problem_id=texts,
    index=st.integers(0),
    text=texts,
    finish_reason=st.sampled_from(FinishReason),
    prompt_tokens=st.integers(0),
    completion_tokens=st.integers(0),
    logprob=st.none() | st.floats(max_value=0),
    provenance=provenances,
    error=st.none() | texts,
    token_ids=st.none() | st.lists(st.integers(0)).map(tuple),
    token_logprobs=st.none() | st.lists(st.floats(max_value=0)).map(tuple),
)
verdicts = st.builds(
    Verdict,
    status=st.sampled_from(Status),
    strict=st.none() | st.booleans(),
    lenient=st.none() | st.booleans(),
    extracted=st.none() | texts,
    rule=st.none() | texts,
    score=st.none() | st.floats(0, 1),
    detail=st.none() | texts,
    seconds=st.just(0.0),
)


def is_flat(row: dict[str, Any]) -> bool:
    """Strings, numbers, None, and tuples of numbers, which any table format has."""
    parts = [
        part for value in row.values() for part in (value if type(value) is tuple else [value])
    ]
    return all(type(part) in {str, int, float, bool, type(None)} for part in parts)


@given(problems)
def test_problem_round_trip(problem: Problem):
    """A problem of any kind comes back equal from its flat row."""
    assert is_flat(problem.row())
    assert Problem.from_row(problem.row()) == problem


@given(paths)
def test_path_round_trip(path: Path):
    """A path comes back equal, provenance included, from a row with further columns."""
    assert is_flat(path.row())
    assert Path.from_row(path.row() | {"further": 1}) == path


@given(verdicts)
def test_verdict_round_trip(verdict: Verdict):
    """A verdict comes back equal from a row with further columns."""
    assert is_flat(verdict.row())
    assert Verdict.from_row(verdict.row() | {"problem_id": "a"}) == verdict


def test_verdict_row_is_the_same_however_long_it_took():
    """Seconds are not in the row, so equal runs write equal shards."""
    quick = Verdict(status=Status.WRONG, strict=False, lenient=False, seconds=0.1)
    slow = Verdict(status=Status.WRONG, strict=False, lenient=False, seconds=3.0)
    assert quick.row() == slow.row()


def test_a_gold_is_a_grid():
    """An ARC gold that no answer can equal is refused, when created and when read."""
    with pytest.raises(ValueError, match="row 2 has 1 cells, row 1 has 2"):
        ArcGold(output=((1, 2), (3,)))
    with pytest.raises(ValueError, match="row 1 holds 10; colours are 0 to 9"):
        ARC.restore_gold({"output": [[10]]})


def judged(strict: bool | None, lenient: bool | None) -> JudgedPath:
    path = Path(
        problem_id="a",
        index=0,
        text="",
        finish_reason=FinishReason.STOP,
        prompt_tokens=1,
        completion_tokens=1,
        logprob=None,
        provenance=Provenance(
            model="m", template="t", seed=1, temperature=1, top_p=1, max_new_tokens=1
        ),
    )
    verdict = Verdict(status=Status.WRONG, strict=strict, lenient=lenient)
    return JudgedPath(path=path, verdict=verdict)


def test_group_leaves_out_what_was_not_judged():
    """Right, right in another format, wrong, not judged: 3 scored, 1 strictly and 2 leniently right."""
    members = [judged(True, True), judged(False, True), judged(False, False), judged(None, None)]
    problem = Problem(id="a", question="?", gold=MathGold(answer="1"), source="made")
    group = Group(problem=problem, members=members)
    assert group.scored() == members[:3]
    assert group.num_correct(strict=True) == 1
    assert group.num_correct(strict=False) == 2


def test_rows_of_before_have_fewer_columns():
    """Columns that a later release added are empty."""
    problem = Problem(id="a", question="?", gold=MathGold(answer="1"), source="made")
    one = judged(True, True)
    for record in (problem, one.path, one.verdict):
        row = record.row()
        for name in ("columns", "token_ids", "token_logprobs", "score"):
            row.pop(name, None)
        assert type(record).from_row(row) == record
