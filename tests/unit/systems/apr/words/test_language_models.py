"""A tiny language model with a chat template learns threads: rows, SFT, GRPO, evaluation, each by its function."""

import pytest
from transformers import PreTrainedTokenizerFast

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.apr import AprDataParams, AprParams, AprRlParams
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import CountdownParams, VerifyParams
from pipeline_lib.params.train import LoraParams
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.systems.apr.data_folder import generate_data
from pipeline_lib.systems.apr.evaluation.evaluate import ROLLOUTS_NAME, evaluate_models
from pipeline_lib.systems.apr.evaluation.plans import EvaluationSetting
from pipeline_lib.systems.apr.evaluation.problem_source import read_source
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.apr.rl import train_by_rl
from pipeline_lib.systems.apr.sft import encode_traces, train_on_traces, words_encoding
from pipeline_lib.systems.apr.words.texts import encode_context
from tests.unit.systems.apr.words.tiny_words import DATA, SFT, WINDOW, params_of


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
    setting = EvaluationSetting(
        children=(),
        tokens=(),
        temperatures=(0.0,),
        samples=1,
        first_success=False,
        serve=None,
        evaluate=EvaluateParams(resamples=100),
        verify=verify,
        seed=1,
    )
    output = tmp_path / "report"
    source = read_source(data, None, "test")
    evaluate_models({"untrained": base, "parallel": after}, source, output, setting)
    rows = [*read_json_lines(output / ROLLOUTS_NAME)]
    assert [one["model"] for one in rows] == ["untrained"] * 3 + ["parallel"] * 3
    assert all(one["measures"] == {"well formed": 0, "right parts": 0} for one in rows[3:])
    # Two worked examples before the question.
    assert rows[0]["seqs"][0]["prefix"].count("<join>") == 2
    assert rows[3]["seqs"][0]["prefix"].count("<join>") == 0


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
