"""Training of a synthesizer on a tiny chat model: SFT, GRPO, PPO, resume."""

import functools
import json

import pytest
import torch

from pipeline_lib.engines.chat_model import Message
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.pacore import (
    Compaction,
    EpisodeParams,
    PacoreParams,
    SynthesizerTrainParams,
)
from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import LoraParams, Method, PpoParams, TrainParams
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.trained import trained_on
from pipeline_lib.records import Problem
from pipeline_lib.store.manifests import read_manifest
from pipeline_lib.systems.pacore import synthesizer
from pipeline_lib.systems.pacore.branches import DrawnBranches
from pipeline_lib.systems.pacore.message_cache import CachedQuestion
from pipeline_lib.systems.pacore.synthesizer import (
    chat_format_for,
    judge_cache,
    supervised_training,
    train_synthesizer,
)
from pipeline_lib.train.bootstrap import make_tokenizer, save_blank_policy
from pipeline_lib.train.methods import schedule_stored_rows, schedule_warm_start
from pipeline_lib.train.weights.export import write_compact_chat
from pipeline_lib.train.weights.gguf_import import import_gguf
from pipeline_lib.train.weights.models import load_model
from pipeline_lib.train.weights.policies import tokens_of
from tests.unit.train.weights.gguf_files import tiny_llama, write_gguf


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return make_base(tmp_path_factory.mktemp("synthesizer"))


def make_base(folder):
    source = write_gguf(folder / "tiny.gguf", tiny_llama(context=1024, spread=0.05))
    import_gguf(source, folder / "model", dtype="float32")
    return str(folder / "model")


@pytest.fixture(scope="module")
def questions():
    """Eight questions with eight responses, two of them right."""
    return judged([number + 1 for number in range(8)])


def judged(golds):
    """Questions with these golds; of their responses the first two are right."""
    cached = [
        CachedQuestion(
            problem=Problem(
                id=f"q{number}",
                question=f"{number}+1?",
                gold=MathGold(answer=str(gold)),
                source="test",
            ),
            conversation=[Message.user(f"{number}+1?")],
            responses=[f"\\boxed{{{gold + k // 2}}}" for k in range(8)],
        )
        for number, gold in enumerate(golds)
    ]
    return judge_cache(cached, Params(), workers=1)


def params(method, **train):
    fields = {"lr": 1e-3, "steps": 3, "batch_size": 4, "group_size": 2, "warm_start_steps": 0}
    settings = SynthesizerTrainParams(
        method=method,
        control=False,
        checkpoint_every=1,
        ppo=PpoParams(gae_lambda=1.0, minibatches=1),
        **(fields | train),
    )
    pacore = PacoreParams(
        max_new_tokens=8,
        episodes=EpisodeParams(references=(2, 3), draws=2, checks=False, plain=0.0),
        train=settings,
    )
    return Params(pacore=pacore)


@pytest.fixture(scope="module")
def trained_by(base, questions, tmp_path_factory):
    """Trainings of three steps, each made once, by their method."""

    @functools.cache
    def trained(method):
        folder = tmp_path_factory.mktemp(method.value) / "model"
        return folder, train_synthesizer(base, questions, folder, params(method))

    return trained


@pytest.mark.parametrize("method", [Method.SFT, Method.GRPO, Method.PPO])
def test_each_method_trains(base, questions, trained_by, method):
    """All steps, a model with its chat template, the episodes and the data card; again it is reused."""
    output, trained = trained_by(method)
    assert trained.summary.steps == 3
    assert (output / "chat_template.jinja").is_file()
    assert trained.episodes.counts["episodes"] == 16
    rows = [json.loads(line) for line in trained.rows.read_text("utf-8").splitlines()]
    assert rows == trained.episodes.rows
    assert all(bool(row["completion"]) == (method is Method.SFT) for row in rows)
    assert "| episodes | 16 |" in trained.card.read_text("utf-8")
    asked = [question.problem for question in questions]
    assert trained_on({"m": str(output)}, asked)[0].startswith("NOT HELD OUT: 8 of 8 ")
    again = train_synthesizer(base, questions, output, params(method))
    assert again.summary.digest == trained.summary.digest


class KilledError(Exception):
    """Ends a training from within."""


def stop_after_two(step, _total, _metrics):
    if step == 2:
        raise KilledError


@pytest.mark.parametrize("method", [Method.SFT, Method.PPO])
def test_a_killed_training_resumes_to_the_same_digest(
    base, questions, trained_by, tmp_path, method
):
    """Interrupted after the second of three steps: the weights equal those of an unbroken training."""
    folder, whole = trained_by(method)
    with pytest.raises(KilledError):
        train_synthesizer(
            base, questions, tmp_path / "broken", params(method), progress=stop_after_two
        )
    steps = []
    resumed = train_synthesizer(
        base,
        questions,
        tmp_path / "broken",
        params(method),
        progress=lambda step, _total, _metrics: steps.append(step),
    )
    assert steps[0] > 1
    assert weights(folder) == weights(tmp_path / "broken")
    assert resumed.summary.steps == whole.summary.steps


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def taught(base, tmp_path_factory):
    """A model that answers 1 or 2 to each of eight questions, of which either is right for one half."""
    folder, questions = tmp_path_factory.mktemp("taught") / "model", judged([1, 2] * 4)
    settings = online(Method.SFT, branches="cached", steps=25, lr=5e-2, batch_size=8)
    train_synthesizer(base, questions, folder, settings)
    return str(folder), questions


def online(method, branches="drawn", **train):
    """Params with room for an answer, so that there are rewards."""
    fields = {"group_size": 4} | train
    found = params(method, branches=branches, **fields)
    return found.model_copy(
        update={"pacore": found.pacore.model_copy(update={"max_new_tokens": 16})}
    )


@pytest.mark.parametrize("method", [Method.GRPO, Method.PPO])
def test_branches_are_drawn_by_the_weights_of_their_step(taught, tmp_path, monkeypatch, method):
    """Killed after two of three steps it ends with the weights and tokens of an unbroken training.

    The training changes the weights, and each step draws with those of the step. The log has the tokens of the
    branches, which are drawn and not trained on.
    """
    seen = []

    class Seen(DrawnBranches):
        def draw(self, prompts, *, model, tokenizer, step):
            seen.append((step, sum(float(one.abs().sum()) for one in model.parameters())))
            return super().draw(prompts, model=model, tokenizer=tokenizer, step=step)

    monkeypatch.setattr(synthesizer, "DrawnBranches", Seen)
    settings, whole, broken = online(method, warmup_fraction=0.0), tmp_path / "w", tmp_path / "b"
    train_synthesizer(*taught, whole, settings)
    unbroken = [*seen]
    assert [step for step, _ in unbroken] == [0, 1, 2]
    assert len({norm for _, norm in unbroken}) == 3
    seen.clear()
    with pytest.raises(KilledError):
        train_synthesizer(*taught, broken, settings, progress=stop_after_two)
    train_synthesizer(*taught, broken, settings)
    assert seen == [*unbroken[:2], *unbroken[1:]]
    assert weights(whole) == weights(broken)
    log, tokens = log_of(whole), tokens_of(read_manifest(whole))
    assert log == log_of(broken)
    assert tokens == tokens_of(read_manifest(broken))
    assert tokens.drawn - tokens.trained == sum(row["branch_tokens"] for row in log)
    # 4 groups of 2 or 3 branches, each with a prompt and at least one drawn token.
    assert all(row["branch_tokens"] >= 4 * 2 * 2 for row in log)


@pytest.mark.slow
def test_a_served_engine_draws_branches_and_syntheses(taught, tmp_path):
    """Under the adapter of each step, by the same code as in process."""
    lora = LoraParams(enabled=True, rank=4)
    settings = online(Method.PPO, rollouts="endpoint", lora=lora).model_copy(
        update={"serve": ServeParams(engine="embedded", port=8462)}
    )
    train_synthesizer(*taught, tmp_path / "model", settings)
    log = log_of(tmp_path / "model")
    assert all(row["branch_tokens"] >= 4 * 2 * 2 for row in log)
    assert max(row["reward"] for row in log) > 0


def log_of(folder):
    lines = (folder / "training_log.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_cached_branches_cost_nothing_at_a_step(taught, tmp_path):
    """Each drawn token is trained on, and the log has no tokens of branches."""
    train_synthesizer(*taught, tmp_path / "model", online(Method.PPO, branches="cached"))
    tokens = tokens_of(read_manifest(tmp_path / "model"))
    assert tokens.drawn == tokens.trained
    assert not [row for row in log_of(tmp_path / "model") if "branch_tokens" in row]


def test_what_no_synthesizer_is_trained_by_is_refused():
    """DPO has no pairs of syntheses, SFT draws nothing, and no training draws summaries: one line each."""
    with pytest.raises(ValueError, match=r"=dpo; with branches=cached it is one of grpo, ppo, rl"):
        PacoreParams(train=SynthesizerTrainParams(method=Method.DPO))
    drawn = SynthesizerTrainParams(branches="drawn")
    with pytest.raises(ValueError, match=r"=sft; with branches=drawn it is one of grpo, ppo, rloo"):
        PacoreParams(train=drawn)
    drawn = drawn.model_copy(update={"method": Method.PPO})
    with pytest.raises(ValueError, match="draws no summaries: set compaction=conclusion"):
        PacoreParams(train=drawn, compaction=Compaction.MODEL)


def test_no_episodes_is_bad_input(base, questions, tmp_path):
    """The message has the counts of the filter and the remedy; nothing is written."""
    few = params(Method.SFT)
    narrow = few.model_copy(
        update={
            "pacore": few.pacore.model_copy(update={"episodes": EpisodeParams(max_mean_right=0.1)})
        }
    )
    with pytest.raises(BadInputError, match=r"no episodes \(questions=8.*max_mean_right"):
        train_synthesizer(base, questions, tmp_path / "model", narrow)
    assert list(tmp_path.iterdir()) == []


def test_a_cold_start_comes_before_online_training(base, questions, tmp_path):
    """Two steps of SFT on supervised episodes, then three of GRPO."""
    trained = train_synthesizer(
        base, questions, tmp_path / "model", params(Method.GRPO, warm_start_steps=2)
    )
    log = (tmp_path / "model" / "training_log.jsonl").read_text("utf-8").splitlines()
    phases = [json.loads(line)["phase"] for line in log]
    assert phases == ["warm-start"] * 2 + ["grpo"] * 3
    assert trained.summary.steps == 5


def filtering(method, **train):
    """Params with the second filter of four syntheses per question."""
    found = params(method, **train)
    episodes = found.pacore.episodes.model_copy(update={"filter_draws": 4})
    pacore = found.pacore.model_copy(update={"episodes": episodes, "max_new_tokens": 16})
    return found.model_copy(update={"pacore": pacore})


def test_the_second_filter_draws_from_the_model_after_its_warm_start(base, tmp_path):
    """SFT learns both answers; RL starts from it, on the questions with both among four syntheses."""
    questions = judged([1, 2] * 4)
    settings = filtering(
        Method.GRPO, warm_start_steps=25, warm_start_lr=5e-2, warm_start_batch_size=8
    )
    trained = train_synthesizer(base, questions, tmp_path / "model", settings)
    counts = trained.episodes.counts
    outcomes = [count for name, count in counts.items() if name.startswith("syntheses_")]
    assert sum(outcomes) == 8
    assert 0 < counts["syntheses_kept"] < 8
    assert counts["episodes"] == 2 * counts["syntheses_kept"]
    assert len({row["problem_id"] for row in trained.episodes.rows}) == counts["syntheses_kept"]
    card = trained.card.read_text("utf-8")
    assert f"| syntheses kept | {counts['syntheses_kept']} |" in card
    assert "model.first-stage`, method grpo" in card
    log = (tmp_path / "model" / "training_log.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["phase"] for line in log] == ["grpo"] * 3
    again = train_synthesizer(base, questions, tmp_path / "model", settings)
    assert again.summary.digest == trained.summary.digest


def test_no_question_with_right_and_wrong_syntheses_is_bad_input(base, questions, tmp_path):
    """An untrained base is never right: the counts, and what to change; SFT has no such filter."""
    with pytest.raises(BadInputError, match=r"syntheses_never_right=8.*filter_draws=0"):
        train_synthesizer(base, questions, tmp_path / "model", filtering(Method.GRPO))
    assert (
        train_synthesizer(base, questions, tmp_path / "sft", filtering(Method.SFT)).summary.steps
        == 3
    )


def test_a_model_without_a_chat_template_is_refused(tmp_path):
    """The base is named, with the command that makes one of a policy from scratch."""
    make_tokenizer(["1+2=3"]).save_pretrained(tmp_path)
    with pytest.raises(
        BadInputError, match=r"no chat template, .*; give .* `reasonloop pacore base`"
    ):
        chat_format_for(str(tmp_path))


def test_a_policy_from_scratch_becomes_a_chat_model(tmp_path):
    """Its prompts are rendered as before, with the same logits; tags are one token each, kept in decoded text."""
    rows = [{"prompt": "3,5=8\n", "completion": "5+3=8"}]
    blank, folder = tmp_path / "blank", tmp_path / "chat"
    save_blank_policy(blank, rows, BootstrapParams(hidden_size=16, num_layers=1, num_heads=2))
    write_compact_chat(str(blank), folder)
    chat_format, tokenizer = chat_format_for(str(folder)), load_tokenizer(str(folder))
    assert chat_format.is_compact
    assert chat_format.render([Message.user("3,5=8")]) == "3,5=8\n"
    ids = tokenizer("<think>8y</think>", add_special_tokens=False)["input_ids"]
    assert len(ids) == 4
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<think>8y</think>"
    prompt = torch.tensor([tokenizer("3,5=8\n", add_special_tokens=False)["input_ids"]])
    before, after = (load_model(str(where))(prompt).logits for where in (blank, folder))
    torch.testing.assert_close(after[..., : before.shape[-1]], before)
    assert after.shape[-1] == before.shape[-1] + 2


COLD_START = {"warm_start_steps": 300, "warm_start_lr": 2e-3, "warm_start_batch_size": 32}
ONLINE = {"lr": 5e-5, "steps": 60, "batch_size": 16, "group_size": 2}


@pytest.mark.parametrize("method", [Method.GRPO, Method.RLOO, Method.PPO])
def test_before_an_online_method_it_is_the_cold_start(method):
    """300 steps of 32 rows at 2e-3, not 60 of 16 at 5e-5: 9,600 rows in place of 960."""
    train = TrainParams(method=method, **ONLINE, **COLD_START)
    schedule = schedule_stored_rows(supervised_training(train))
    assert schedule == schedule_warm_start(train)
    assert (schedule.steps, schedule.lr, schedule.batch_size) == (300, 2e-3, 32)


@pytest.mark.parametrize("settings", [{"method": Method.SFT}, {"warm_start_steps": 0}])
def test_without_a_cold_start_it_is_the_training_itself(settings):
    """SFT ignores the settings of a warm start: 60 steps of 16; so does GRPO with a warm start of 0 steps."""
    train = TrainParams(**({"method": Method.GRPO} | ONLINE | COLD_START | settings))
    own = supervised_training(train)
    assert own.method is Method.SFT
    assert (own.steps, own.lr, own.batch_size) == (60, 5e-5, 16)
