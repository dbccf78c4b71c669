"""Data building on recorded outputs of a real model, judged by the real verifier."""

import pathlib
from collections import Counter

import pytest
from math_verify import parse, verify

from pipeline_lib.params.paths import BuildParams, VerifyParams
from pipeline_lib.params.train import Method
from pipeline_lib.params.whole import Params
from pipeline_lib.records import JudgedPath
from pipeline_lib.sampling.prompts import render
from pipeline_lib.store.files import read_json_lines, write_json_lines
from pipeline_lib.systems.loop.by_hand.build import build_file
from pipeline_lib.train.rows.builders import BuildContext, TrainData, build
from pipeline_lib.verdicts import Status
from pipeline_lib.verify.lines import groups_from_lines, verify_lines

PAIRS = {False: 11, True: 16}
"""Pairs of the public paths and of the bundled ones: four per problem, for four problems."""


@pytest.fixture(scope="module")
def is_made(data_folder, synthetic_data) -> bool:
    """True for the bundled paths."""
    return data_folder == synthetic_data


@pytest.fixture(scope="module", params=["gsm8k_qwen7b_paths", "math_labelled"])
def built(
    request: pytest.FixtureRequest, data_folder: pathlib.Path
) -> tuple[TrainData, dict[str, JudgedPath]]:
    source = data_folder / "recorded" / f"{request.param}.jsonl"
    groups = groups_from_lines(source, VerifyParams())
    data = build(
        Method.DPO,
        groups,
        BuildContext(
            params=BuildParams(),
            render=lambda problem: render(problem, None),
            seed=7,
            verifier_version="1",
        ),
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


def test_pairs_are_not_told_apart_by_length(built, is_made):
    """Wrong paths tend to be longer; matching keeps the mean lengths within a quarter."""
    data, _ = built
    assert data.counts["dpo_rows"] >= (6 if is_made else 10)
    assert 0.8 < data.counts["chosen_to_rejected_chars"] < 1.25


@pytest.fixture(scope="module")
def pairs_file(data_folder, tmp_path_factory):
    """Rows and card that `reasonloop build` makes of the recorded paths."""
    output = tmp_path_factory.mktemp("pairs") / "pairs.jsonl"
    source = data_folder / "recorded" / "gsm8k_qwen7b_paths.jsonl"
    build_file(source, output, Method.DPO, Params(), workers=1)
    return output


@pytest.fixture(scope="module")
def gold_of(data_folder):
    rows = read_json_lines(data_folder / "recorded" / "gsm8k_qwen7b_paths.jsonl")
    return {row["problem_id"]: row["gold"] for row in rows}


def test_pairs_judged_again_hold(pairs_file, gold_of, is_made, tmp_path):
    """Each text of the written file, judged from scratch: chosen strictly right, rejected wrong by any rule."""
    rows = list(read_json_lines(pairs_file))
    sides = [
        {"id": f"{n}-{side}", "gold": gold_of[row["problem_id"]], "text": row[side]}
        for n, row in enumerate(rows)
        for side in ("chosen", "rejected")
    ]
    write_json_lines(tmp_path / "sides.jsonl", sides)
    verify_lines(tmp_path / "sides.jsonl", tmp_path / "verdicts.jsonl", VerifyParams(), workers=1)
    verdicts = {row["id"]: row for row in read_json_lines(tmp_path / "verdicts.jsonl")}
    assert len(rows) == PAIRS[is_made]
    for n in range(len(rows)):
        assert verdicts[f"{n}-chosen"]["strict"] is True
        assert verdicts[f"{n}-rejected"]["lenient"] is False


def test_a_second_judge_finds_no_rejected_path_right(pairs_file, gold_of):
    """Plain math-verify, which shares no code with the verifier's rules, agrees on all pairs."""
    quick = {"parsing_timeout": None}
    for row in read_json_lines(pairs_file):
        gold = parse(gold_of[row["problem_id"]], **quick)
        assert verify(gold, parse(row["chosen"], **quick), timeout_seconds=None)
        assert not verify(gold, parse(row["rejected"], **quick), timeout_seconds=None)


def test_no_pair_stands_twice_and_its_two_texts_differ(pairs_file):
    """At most 4 pairs a problem, no path in more than two pairs, no pair of equal texts."""
    rows = list(read_json_lines(pairs_file))
    assert len({(row["chosen_path_id"], row["rejected_path_id"]) for row in rows}) == len(rows)
    assert max(Counter(row["problem_id"] for row in rows).values()) <= 4
    for side in ("chosen", "rejected"):
        assert max(Counter(row[f"{side}_path_id"] for row in rows).values()) <= 2
    assert all(row["chosen"] != row["rejected"] for row in rows)


def test_the_card_states_the_length_bias(pairs_file, is_made):
    """The ratio of the card is that of the texts in the file; of the public paths 0.94, so the
    chosen are shorter."""
    rows = list(read_json_lines(pairs_file))
    chosen, rejected = (sum(len(row[side]) for row in rows) for side in ("chosen", "rejected"))
    card = pairs_file.with_suffix(".card.md").read_text("utf-8")
    assert f"| chosen_to_rejected_chars | {chosen / rejected:.4g} |" in card
    assert is_made or chosen / rejected == pytest.approx(0.94, abs=0.005)
    assert "none is wrong in format only" in card


def test_every_row_says_where_it_comes_from(pairs_file):
    """Each row names problem, both paths, policy, template, seed and verifier version."""
    for row in read_json_lines(pairs_file):
        for side in ("chosen", "rejected"):
            assert row[f"{side}_path_id"].startswith(row["problem_id"])
            assert {f"{side}_{name}" for name in ("model", "adapter", "template", "seed")} <= set(
                row
            )
        assert row["verifier_version"]
        assert row["prompt"]
