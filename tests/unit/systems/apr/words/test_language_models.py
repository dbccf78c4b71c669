"""A tiny language model with a chat template learns threads: rows, SFT, GRPO, evaluation, each by its function."""

import re
from contextlib import nullcontext
from dataclasses import replace

import pytest
from transformers import PreTrainedTokenizerFast

from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.apr import AprDataParams, AprEvaluateParams, AprParams, AprRlParams
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import CountdownParams, VerifyParams
from pipeline_lib.params.train import LoraParams
from pipeline_lib.params.whole import Params
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.study.study import read_study
from pipeline_lib.systems.apr.data_folder import generate_data
from pipeline_lib.systems.apr.evaluation.evaluate import ROLLOUTS_NAME, evaluate_models
from pipeline_lib.systems.apr.evaluation.plans import EvaluationSetting
from pipeline_lib.systems.apr.evaluation.problem_source import read_source
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.apr.rl import train_by_rl
from pipeline_lib.systems.apr.sft import encode_traces, train_on_traces, words_encoding
from pipeline_lib.systems.apr.stages import APR
from pipeline_lib.systems.apr.words import task as words_task
from pipeline_lib.systems.apr.words.texts import encode_context
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import read_events
from pipeline_lib.verdicts import Status, Verdict
from tests.unit.systems.apr.words.tiny_words import DATA, SFT, WINDOW, params_of


def setting():
    """One greedy rollout of each problem, in process."""
    return EvaluationSetting(
        children=(),
        tokens=(),
        temperatures=(0.0,),
        samples=1,
        first_success=False,
        serve=None,
        evaluate=EvaluateParams(resamples=100),
        verify=VerifyParams(),
        max_tokens=40,
        seed=1,
    )


def test_a_parent_is_one_row_without_a_loss_on_the_join(base, data):
    """The loss is on the block and on what follows the join; each child is a row of its own."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(base)
    encoding = words_encoding(str(base))
    traces = encode_traces(data, "parallel", SFT, encoding=encoding, window=WINDOW, seed=1)
    parents = [row for row in traces.rows if row.silent]
    assert len(parents) == DATA.train_problems
    assert len(traces.rows) > 3 * len(parents)
    for row in parents:
        [(first, behind)] = row.silent
        ids = row.ids_L.tolist()
        block, join, last = (
            tokenizer.decode(some)
            for some in (ids[row.loss_from : first], ids[first:behind], ids[behind:])
        )
        assert block.startswith("<spawn>\n1\n2\n")
        assert block.endswith("</spawn>")
        assert join.startswith("\n<join>\n")
        assert join.endswith("</join>\n")
        assert last.endswith("}<|end|>")


def test_a_join_leaves_the_tokens_before_it_as_they_were_drawn(base):
    """As one text, ``>`` and the line feed of the join would be one token, which was never drawn."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(base)
    drawn, join = "1</spawn>", "\n<join>\n2\n</join>\n"
    before = tokenizer.encode(drawn)
    assert encode_context(tokenizer, drawn + join)[: len(before)] == before
    assert tokenizer.encode(drawn + join)[: len(before)] != before


@pytest.mark.parametrize("lora", [LoraParams(), LoraParams(enabled=True, rank=4, alpha=8)])
def test_a_language_model_is_trained_and_evaluated(base, data, tmp_path, lora):
    """SFT, a step of GRPO on its own threads, and figures beside the model that was not trained."""
    trained, after = tmp_path / "trained", tmp_path / "rl"
    params = params_of(base, lora=lora)
    train_on_traces(data, "parallel", trained, params, seed=1)
    rl = AprRlParams(steps=1, prompts=2, group_size=2, updates=1)
    verify = VerifyParams()
    manifest = train_by_rl(trained, data, after, rl, seed=1, verify=verify, lora=lora)
    assert manifest.counts["drawn_tokens"] > 0
    assert (after / "adapters").is_dir() == lora.enabled
    record = read_record(after)
    assert (record.style, record.kind, record.num_numbers) == ("parts", "parallel", None)
    output = tmp_path / "report"
    source = read_source(data, None, "test")
    evaluate_models({"untrained": base, "parallel": after}, source, output, setting())
    rows = [*read_json_lines(output / ROLLOUTS_NAME)]
    assert [one["model"] for one in rows] == ["untrained"] * 3 + ["parallel"] * 3
    assert all(one["measures"] == {"well formed": 0, "right parts": 0} for one in rows[3:])
    # Two worked examples before the question.
    assert rows[0]["seqs"][0]["prefix"].count("<join>") == 2
    assert rows[3]["seqs"][0]["prefix"].count("<join>") == 0


def test_two_processes_draw_what_one_draws(base, data, tmp_path, monkeypatch):
    """Groups of rollouts are drawn in any process; the rows are equal, in the same order."""
    monkeypatch.setattr(EvaluationSetting, "drawn_together", 1)
    source = read_source(data, None, "test")
    moved: list[tuple[int, int]] = []
    for workers in (1, 2):
        chosen = replace(setting(), temperatures=(0.0, 1.0), workers=workers)
        evaluate_models(
            {"base": base},
            source,
            tmp_path / str(workers),
            chosen,
            on_progress=lambda *one: moved.append(one),
        )
    alone, together = (tmp_path / name / ROLLOUTS_NAME for name in "12")
    assert alone.read_bytes() == together.read_bytes()
    assert moved == [(done, 6) for _ in range(2) for done in range(7)]


def test_words_and_searches_are_not_mixed(base, data, tmp_path):
    """Questions in words need a language model, and searches a model of their own."""
    with pytest.raises(BadInputError, match=r"apr\.model\.base=None"):
        train_on_traces(data, "parallel", tmp_path / "a", AprParams(sft=SFT), seed=1)
    searches = AprDataParams(
        countdown=CountdownParams(high=8), train_problems=2, valid_problems=1, test_problems=1
    )
    generate_data(searches, tmp_path / "searches", seed=3, workers=1)
    with pytest.raises(BadInputError, match="the task countdown"):
        train_on_traces(tmp_path / "searches", "parallel", tmp_path / "b", params_of(base), seed=1)


def test_an_answer_without_a_verdict_is_no_wrong_answer(base, data, tmp_path, monkeypatch):
    """Where the verifier fails, a rollout has no score, and the evaluation says so instead of scoring it."""

    class Failing:
        def judge(self, items):
            verdict = Verdict(
                status=Status.VERIFIER_ERROR, strict=None, lenient=None, detail="gone"
            )
            return [verdict for _ in items]

    monkeypatch.setattr(words_task, "pooled_verifier", lambda _params: nullcontext(Failing()))
    source = read_source(data, None, "test")
    with pytest.raises(
        ReasonloopError, match=r"every rollout failed; the first: no verdict: .*gone"
    ):
        evaluate_models({"base": base}, source, tmp_path / "report", setting())


def test_all_stages_of_a_run(base, tmp_path):
    """Data, three twins, their RL, the comparison with the base, and the questions of new wordings."""
    apr = params_of(base, lora={"enabled": True, "rank": 4, "alpha": 8}).model_copy(
        update={
            "data": DATA,
            "rl": AprRlParams(steps=1, prompts=2, group_size=2, updates=1),
            "evaluate": AprEvaluateParams(temperatures=(0.0,)),
        }
    )
    run = Run(root=tmp_path, params=Params(apr=apr, evaluate=EvaluateParams(resamples=100)))
    APR.check(run, draws=True)
    for stage in APR.stages:
        stage.work()(run)
    study = read_study(run.workspace.apr.reports / "metrics.json")
    trained = ("parallel", "serial", "terse")
    assert {one.base for one in study.arms} == {
        *("untrained", *trained),
        *(f"{name} rl" for name in trained),
    }
    assert (study.differences[0].arm, study.differences[0].reference) == ("parallel rl", "terse rl")
    new = read_study(run.workspace.apr.reports / "wordings" / "metrics.json")
    assert {one.n for one in new.points if one.measure == "accuracy"} == {2}
    [note] = [e["text"] for e in read_events(tmp_path) if e["event"] == "note"][-1:]
    assert note.startswith("Gates of parallel-rl, not met: well formed 0.0")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"data": AprDataParams(train_problems=100)},
            "apr.data.task=countdown with apr.model.base=",
        ),
        ({"rl": AprRlParams(prompts=2, grammar="no_such:name")}, "apr.rl.grammar=no_such: neither"),
    ],
)
def test_a_run_is_checked_before_any_stage(base, tmp_path, changed, message):
    """One line, and nothing is written."""
    apr = params_of(base).model_copy(update={"data": DATA, **changed})
    with pytest.raises(BadInputError, match=re.escape(message)):
        APR.check(Run(root=tmp_path, params=Params(apr=apr)), draws=True)
    assert not [*tmp_path.iterdir()]
