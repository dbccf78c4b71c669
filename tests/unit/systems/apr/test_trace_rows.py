"""Which sequences of a trace are trained on, and where their loss begins."""

from typing import Any

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.apr import AprDataParams, AprSftParams, ThreadSearchParams
from pipeline_lib.params.paths import CountdownParams
from pipeline_lib.store import shards
from pipeline_lib.systems.apr.countdown.tokens import EOS, make_tokenizer
from pipeline_lib.systems.apr.data_folder import generate_data, traces_folder
from pipeline_lib.systems.apr.sft import EncodedTraces, countdown_encoding, encode_traces

ALL = {"failed_children": None, "join_share": 1.0, "conditioned": 1.0}


def encode(data, kind="parallel", *, window=2000, **settings: Any) -> EncodedTraces:
    sft = AprSftParams(**(ALL | settings))
    return encode_traces(data, kind, sft, encoding=countdown_encoding(3), window=window, seed=7)


def texts(traces: EncodedTraces) -> list[tuple[str, str]]:
    tokenizer = make_tokenizer(3)
    return [
        (
            tokenizer.decode(row.ids_L[: row.loss_from].tolist()),
            tokenizer.decode(row.ids_L[row.loss_from :].tolist(), skip_special_tokens=False),
        )
        for row in traces.rows
    ]


@pytest.mark.parametrize("kind", ["parallel", "serial"])
@pytest.mark.parametrize("conditioned", [1.0, 0.0])
def test_the_loss_begins_where_the_model_draws(small_data, kind, conditioned):
    """Condition and prefix are given; output and end token have a loss. Nothing is lost at the largest window."""
    rows = shards.read_table(traces_folder(small_data, kind))
    expected = [
        ((row["condition"] if conditioned else "") + row["prefix"], row["output"] + EOS)
        for row in rows
    ]
    traces = encode(small_data, kind, conditioned=conditioned)
    assert texts(traces) == expected
    assert traces.dropped == 0


def test_all_tokens_have_a_loss_on_request(small_data):
    """As in the paper."""
    assert {row.loss_from for row in encode(small_data, loss_on="all").rows} == {0}


def test_long_sequences_are_dropped_and_counted(small_data):
    """A window of 150 tokens, the end token included: what is left fits, and the rest is counted."""
    whole = encode(small_data, "serial")
    cut = encode(small_data, "serial", window=150)
    longer = sum(len(row.ids_L) > 150 for row in whole.rows)
    assert cut.dropped == longer > 0
    assert max(len(row.ids_L) for row in cut.rows) <= 150
    assert len(cut.rows) == len(whole.rows) - longer


def test_few_failed_children_are_taken(small_data):
    """At most two of a problem; children with a solution and parents are all taken."""
    rows = shards.read_table(traces_folder(small_data, "parallel"))
    failed: dict[str, int] = {}
    for row in rows:
        if row["role"] == "child" and not row["solved"]:
            failed[row["problem_id"]] = failed.get(row["problem_id"], 0) + 1
    left_out = sum(max(0, count - 2) for count in failed.values())
    assert left_out > 0
    assert len(encode(small_data, failed_children=2).rows) == len(rows) - left_out


@pytest.mark.parametrize(("share", "low", "high"), [(0.0, 0, 0), (0.2, 1, 20), (1.0, 40, 40)])
def test_a_share_of_the_segments_after_joins_is_taken(small_data, share, low, high):
    """40 problems with one join each: 8 at .2, by a seeded draw."""
    joined = [
        prefix for prefix, _ in texts(encode(small_data, join_share=share)) if "<Sub" in prefix
    ]
    assert low <= len(joined) <= high


def test_the_conditions_are_those_of_root_threads(small_data):
    """In order of their amounts; without conditions the empty one."""
    serial = encode(small_data, "serial").conditions
    amounts = [int(condition.removeprefix("Token Budget: ")) for condition in serial]
    assert amounts == sorted(amounts)
    assert len(amounts) > 2
    assert encode(small_data, conditioned=0.0).conditions == ("",)
    assert encode(small_data, "serial", conditioned=0.5).conditions[0] == ""


def test_a_share_of_the_problems_is_conditioned(small_data):
    """All sequences of a problem or none, whatever else is taken; about half of 40 at .5."""
    rows = shards.read_table(traces_folder(small_data, "serial"))
    found = dict(
        zip(
            (row["problem_id"] for row in rows),
            texts(encode(small_data, "serial", conditioned=0.5)),
            strict=True,
        )
    )
    conditioned = [name for name, (prefix, _) in found.items() if prefix.startswith("Token Budget")]
    assert 10 < len(conditioned) < 30


def test_a_window_that_holds_no_prompt_is_refused(small_data):
    """The message names the key, the window and the length of a prompt."""
    with pytest.raises(BadInputError, match=r"apr\.model\.window=10: a prompt takes 1"):
        encode(small_data, window=10)


def test_a_trace_without_a_spawn_is_no_training_without_conditions(tmp_path):
    """A published search with one successor spawns nothing: its prompt has no number of children to be asked for."""
    params = AprDataParams(
        countdown=CountdownParams(high=8, target_low=5, target_high=40),
        style="published",
        train_problems=40,
        valid_problems=1,
        test_problems=1,
        parallel=ThreadSearchParams(beam_low=1, beam_high=3, sub_beam=3, branch=0.9),
    )
    generate_data(params, tmp_path / "data", seed=3, workers=1)
    rows = shards.read_table(traces_folder(tmp_path / "data", "parallel"))
    assert any(row["role"] == "parent" and not row["condition"] for row in rows)
    assert "" not in encode(tmp_path / "data").conditions
    assert "" in encode(tmp_path / "data", conditioned=0.5).conditions
