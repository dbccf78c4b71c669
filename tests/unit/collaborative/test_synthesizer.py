"""Training of a synthesizer on a tiny chat model: SFT, GRPO, PPO, resume."""

import json

import pytest

from pipeline_lib.collaborative import synthesizer
from pipeline_lib.collaborative.synthesizer import train_synthesizer
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.pacore import EpisodeParams, PacoreParams
from pipeline_lib.params.train import Method, PpoParams, TrainParams
from pipeline_lib.params.whole import Params
from pipeline_lib.training.weights.gguf_import import import_gguf
from tests.unit.training.weights.gguf_files import tiny_llama, write_gguf


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthesizer")
    source = write_gguf(folder / "tiny.gguf", tiny_llama(context=1024, spread=0.05))
    import_gguf(source, folder / "model", dtype="float32")
    return str(folder / "model")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Eight questions with eight responses, two of them right."""
    path = tmp_path_factory.mktemp("cache") / "cache.jsonl"
    rows = [
        {
            "id": f"q{number}",
            "conversation": [{"role": "user", "content": f"{number}+1?"}],
            "responses": [f"\\boxed{{{number + 1 + k // 2}}}" for k in range(8)],
            "ground_truth": str(number + 1),
        }
        for number in range(8)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    return path


def params(method, **train):
    fields = {"lr": 1e-3, "steps": 3, "batch_size": 4, "group_size": 2, "warm_start_steps": 0}
    settings = TrainParams(
        method=method,
        control=False,
        checkpoint_every=1,
        ppo=PpoParams(gae_lambda=1.0, minibatches=1),
        **(fields | train),
    )
    pacore = PacoreParams(
        max_new_tokens=8, episodes=EpisodeParams(references=(2, 3), draws=2), train=settings
    )
    return Params(pacore=pacore)


@pytest.mark.parametrize("method", [Method.SFT, Method.GRPO, Method.PPO])
def test_each_method_trains(base, cache, tmp_path, method):
    """All steps, a model with its chat template, the episodes and the data card; again it is reused."""
    output = tmp_path / "model"
    trained = train_synthesizer(base, cache, output, params(method))
    assert trained.summary.steps == 3
    assert (output / "chat_template.jinja").is_file()
    assert trained.episodes.counts["episodes"] == 16
    rows = [json.loads(line) for line in trained.rows.read_text("utf-8").splitlines()]
    assert rows == trained.episodes.rows
    assert all(bool(row["completion"]) == (method is Method.SFT) for row in rows)
    assert "| episodes | 16 |" in trained.card.read_text("utf-8")
    again = train_synthesizer(base, cache, output, params(method))
    assert again.summary.digest == trained.summary.digest


@pytest.mark.parametrize("method", [Method.SFT, Method.PPO])
def test_a_killed_training_resumes_to_the_same_digest(base, cache, tmp_path, monkeypatch, method):
    """Interrupted after the second of three steps: the weights equal those of an unbroken training."""
    whole = train_synthesizer(base, cache, tmp_path / "whole", params(method))

    class KilledError(Exception):
        pass

    def stop_after_two(step, _total, _metrics):
        if step == 2:
            raise KilledError

    with pytest.raises(KilledError):
        train_synthesizer(base, cache, tmp_path / "broken", params(method), progress=stop_after_two)
    steps = []
    resumed = train_synthesizer(
        base,
        cache,
        tmp_path / "broken",
        params(method),
        progress=lambda step, _total, _metrics: steps.append(step),
    )
    assert steps[0] > 1
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "broken")]
    assert weights[0] == weights[1]
    assert resumed.summary.steps == whole.summary.steps


def test_no_episodes_is_bad_input(base, cache, tmp_path):
    """The message has the counts of the filter and the remedy; nothing is written."""
    few = params(Method.SFT)
    narrow = few.model_copy(
        update={
            "pacore": few.pacore.model_copy(update={"episodes": EpisodeParams(max_mean_right=0.1)})
        }
    )
    with pytest.raises(BadInputError, match=r"no episodes \(questions=8.*max_mean_right"):
        train_synthesizer(base, cache, tmp_path / "model", narrow)
    assert list(tmp_path.iterdir()) == []


def test_other_methods_are_refused(base, cache, tmp_path):
    """DPO has no pairs of syntheses."""
    with pytest.raises(BadInputError, match=r"method=dpo; expected one of grpo, ppo, rloo, sft"):
        train_synthesizer(base, cache, tmp_path / "model", params(Method.DPO))


def test_a_model_without_a_chat_template_is_refused(cache, tmp_path, monkeypatch):
    """The base is named."""
    monkeypatch.setattr(synthesizer, "load_tokenizer", lambda _base: None)
    monkeypatch.setattr(synthesizer, "chat_format_of", lambda _tokenizer: None)
    with pytest.raises(BadInputError, match="plain: the model has no chat template"):
        train_synthesizer("plain", cache, tmp_path / "model", params(Method.SFT))
