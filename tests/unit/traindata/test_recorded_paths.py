"""Data building on recorded outputs of a real model, judged by the real verifier."""

import pathlib

import pytest

from pipeline_lib.params import BuildParams, Method, VerifyParams
from pipeline_lib.records import JudgedPath, Status
from pipeline_lib.sampling.prompts import render
from pipeline_lib.traindata.builders import TrainData, build
from pipeline_lib.verification.lines import groups_from_lines


@pytest.fixture(scope="module", params=["gsm8k_qwen7b_paths", "math_labelled"])
def built(
    request: pytest.FixtureRequest, reference_data: pathlib.Path
) -> tuple[TrainData, dict[str, JudgedPath]]:
    source = reference_data / "recorded" / f"{request.param}.jsonl"
    groups = groups_from_lines(source, VerifyParams())
    data = build(
        Method.DPO,
        groups,
        params=BuildParams(),
        render=lambda problem: render(problem, None),
        seed=7,
        verifier_version="1",
    )
    return data, {member.path.id: member for group in groups for member in group.members}


def test_no_pair_holds_a_path_wrong_in_format_only(built):
    """Chosen are right in every respect, rejected have a wrong answer by any rule."""
    data, member_of = built
    for row in data.rows_by_table["dpo"]:
        chosen, rejected = member_of[row["chosen_path_id"]], member_of[row["rejected_path_id"]]
        assert (chosen.verdict.strict, chosen.verdict.lenient) == (True, True)
        assert (rejected.verdict.strict, rejected.verdict.lenient) == (False, False)
        assert rejected.verdict.status is Status.WRONG


def test_pairs_are_not_told_apart_by_length(built):
    """Wrong paths tend to be longer; matching keeps the mean lengths within a quarter."""
    data, _ = built
    assert data.counts["dpo_rows"] >= 10
    assert 0.8 < data.counts["chosen_to_rejected_chars"] < 1.25
