"""Every loss as a number: with ratios chosen by hand, and as trainers log it in a real step.

Two references. A model of zeros gives each of V tokens the log-probability -ln V, so that with chosen
old log-probabilities the loss can be computed on paper. And after a real step of a real trainer, the
logged loss must equal plain sums over log-probabilities.
"""

import itertools
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.train import LoraParams, Method, TrainParams, Variant
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.train.offline import dpo, sft
from pipeline_lib.train.online import grpo
from pipeline_lib.train.online.rewards import Rewards, make_verified_reward
from pipeline_lib.train.phases import MakeTrainer, Phase, Schedule, TrainContext, run_phase
from pipeline_lib.train.trainer_settings import TrainerSettings, silence_libraries
from pipeline_lib.train.weights.policies import LOG_NAME, Policy, load_policy
from pipeline_lib.verify.dispatch import open_verifier

FULL = LoraParams()
PROMPT = "2,3=5\n"
GOLD = CountdownGold(numbers=(2, 3), target=5)
LIMIT = 8
NUM_TOKENS = 274
VARIANTS = list(Variant)


class NoVerifier:
    """For trainers whose rewards are not computed."""

    def judge(self, items):
        raise AssertionError(items)


# -- On paper -------------------------------------------------------------------------------------

LOG_V = math.log(NUM_TOKENS)
SHORT, LONG = [1.5, 0.5], [0.5, 1.5, 6.0]
"""New over old probability of each token, in a path of two tokens and in one of three."""

ON_PAPER = {
    # short: min(1.5, 1.28) + min(0.5, 0.8) = 1.78; long: max(0.5, 0.8) + 1.5 + 6 = 8.3; 5 tokens
    (Variant.DAPO, +1): (-1.78 + 8.3) / 5,
    # the short path has the loss 1.5 + 0.8 = 2.3, the long one gains 0.5 + 1.28 + 1.28 = 3.06
    (Variant.DAPO, -1): (2.3 - 3.06) / 5,
    # each path by itself, upper clip 1.2: short 1.7 / 2, long 8.3 / 3
    (Variant.GRPO, +1): (-1.7 / 2 + 8.3 / 3) / 2,
    (Variant.GRPO, -1): (2.3 / 2 - (0.5 + 1.2 + 1.2) / 3) / 2,
    # the same sums over 2 paths of at most 8 tokens
    (Variant.DR_GRPO, +1): (-1.7 + 8.3) / 16,
    (Variant.DR_GRPO, -1): (2.3 - 2.9) / 16,
    # a path's ratio: (1.5 * 0.5)^(1/2) = 0.8660 and (0.5 * 1.5 * 6)^(1/3) = 1.6510, neither clipped
    (Variant.GSPO, +1): (-math.sqrt(0.75) + 4.5 ** (1 / 3)) / 2,
    # both clipped: to 1 - 0.0003 and to 1 + 0.0004
    (Variant.GSPO, -1): (0.9997 - 1.0004) / 2,
    # weights 1.5 + 0.5 = 2 and 0.5 + 1.5 + 5 = 7, times the log-probability -ln V of each token
    (Variant.CISPO, +1): (2 - 7) * LOG_V / 5,
    (Variant.CISPO, -1): (-2 + 7) * LOG_V / 5,
    # the same ratios, clipped to 0.8 and to 1.2, times 2 and 3 tokens
    ("rloo", +1): (-2 * math.sqrt(0.75) + 3 * 4.5 ** (1 / 3)) / 2,
    ("rloo", -1): (2 * math.sqrt(0.75) - 3 * 1.2) / 2,
}


@pytest.fixture(scope="module")
def zeros(base: pathlib.Path) -> Policy:
    """A policy whose weights are all 0, so that each token has the log-probability -ln V."""
    policy = load_policy(str(base))
    assert policy.model.config.vocab_size == NUM_TOKENS
    with torch.no_grad():
        for weight in policy.model.parameters():
            weight.zero_()
    return policy


def factory_of(
    method: Variant | str, draw: Any, *, verifier: Any, group_size: int, updates: int = 1
) -> MakeTrainer:
    """The trainer factory of a variant of GRPO, or of RLOO, on the paths of ``draw``."""
    named = {"method": Method.RLOO} if method == "rloo" else {"method": "grpo", "variant": method}
    return grpo.trainer_factory(
        [{"prompt": PROMPT, "problem_id": "p"}],
        TrainParams(
            **named, group_size=group_size, updates_per_rollout=updates, max_logprob_gap=99
        ),
        rewards=Rewards(functions=[make_verified_reward({"p": GOLD}, verifier)], weights=[1.0]),
        make_rollouts=lambda _source: draw,
        max_new_tokens=LIMIT,
    )


@pytest.mark.parametrize(("method", "sign"), ON_PAPER)
def test_loss_on_paper(method, sign, zeros: Policy, tmp_path: pathlib.Path):
    """The short path has advantage ``sign``, the long one the opposite; ratios are SHORT and LONG."""
    values = {
        "output_dir": str(tmp_path),
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 1,
        "max_steps": 1,
        "seed": 1,
        "use_cpu": True,
        "bf16": False,
        "report_to": "none",
    }
    make = factory_of(method, roll_out, verifier=NoVerifier(), group_size=2, updates=2)
    with silence_libraries():
        trainer = make(zeros, TrainerSettings(values))
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    old = [[-LOG_V - math.log(ratio) for ratio in path] for path in (SHORT, LONG)]
    loss = trainer.compute_loss(
        trainer.model,
        {
            "prompt_ids": torch.tensor([[5, 6], [5, 6]]),
            "prompt_mask": torch.ones(2, 2, dtype=torch.long),
            "completion_ids": torch.tensor([[7, 8, 0], [9, 7, 8]]),
            "completion_mask": torch.tensor([[1, 1, 0], [1, 1, 1]]),
            "old_per_token_logps": torch.tensor([[*old[0], 0.0], old[1]]),
            "advantages": torch.tensor([float(sign), float(-sign)]),
            "num_items_in_batch": torch.tensor(5),
        },
    )
    assert loss.item() == pytest.approx(ON_PAPER[method, sign], abs=1e-5)


# -- In a real step -------------------------------------------------------------------------------


def trained(make_trainer: MakeTrainer, base: pathlib.Path, work: pathlib.Path, *, batch: int):
    """Two real steps: the log, the weights before the first step, and those before the second."""
    schedule = Schedule(
        steps=2,
        lr=0.02,
        batch_size=batch,
        micro_batch_size=batch,
        checkpoint_every=1,
    )
    phase = Phase(name="p", schedule=schedule, make_trainer=make_trainer)
    context = TrainContext(work=work, key="key", seed=5, threads=1)
    log = list(read_json_lines(run_phase(phase, str(base), context) / LOG_NAME))
    return log, Scores(base), Scores(work / "p" / "checkpoint-1")


class Scores:
    """Log-probabilities of completions under the weights of a folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)

    def of(self, completion: Sequence[int]) -> list[float]:
        """Of each token of ``completion`` after PROMPT, by one plain forward pass."""
        prompt = self.tokenizer.encode(PROMPT, add_special_tokens=False)
        ids = torch.tensor([[*prompt, *completion]])
        with torch.inference_mode():
            logprobs = self.model(input_ids=ids).logits[0].log_softmax(-1)
        places = range(len(prompt) - 1, ids.shape[1] - 1)
        return [logprobs[place, ids[0, place + 1]].item() for place in places]

    def tokens(self, text: str, *, ended: bool = True) -> list[int]:
        """Token ids of ``text``, with the end token unless it was truncated."""
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        return [*ids, self.tokenizer.eos_token_id] if ended else ids


RIGHT, WRONG, SHORT_WRONG = "3+2=5", "3*2=5", "7"


def test_supervised_loss_is_the_mean_over_completion_tokens(base, tmp_path):
    """6 and 2 tokens: -(sum of 8 log-probabilities) / 8, no token of a prompt, not a mean of means."""
    rows = [{"prompt": PROMPT, "completion": text} for text in (RIGHT, SHORT_WRONG)]
    log, before, after = trained(sft.trainer_factory(rows, lora=FULL), base, tmp_path, batch=2)
    for entry, scores in zip(log, (before, after), strict=True):
        long, short = (scores.of(scores.tokens(text)) for text in (RIGHT, SHORT_WRONG))
        assert (len(long), len(short)) == (6, 2)
        assert entry["loss"] == pytest.approx(-(sum(long) + sum(short)) / 8, rel=1e-4)
        assert entry["loss"] != pytest.approx(-(sum(long) / 6 + sum(short) / 2) / 2, rel=1e-4)


def test_preference_loss_is_that_of_the_difference_of_log_ratios(base, tmp_path):
    """Before the first step policy and reference agree: ln 2. Before the second
    -ln sigmoid(beta * ((chosen - chosen_ref) - (rejected - rejected_ref))), over whole completions.
    """
    row = {"prompt": PROMPT, "chosen": RIGHT, "rejected": SHORT_WRONG}
    make_trainer = dpo.trainer_factory([row], beta=0.5, lora=FULL)
    log, reference, policy = trained(make_trainer, base, tmp_path, batch=1)
    chosen, rejected = (
        sum(policy.of(policy.tokens(text))) - sum(reference.of(reference.tokens(text)))
        for text in (RIGHT, SHORT_WRONG)
    )
    assert log[0]["loss"] == pytest.approx(math.log(2), abs=1e-5)
    expected = math.log(1 + math.exp(-0.5 * (chosen - rejected)))
    assert abs(expected - math.log(2)) > 0.05
    assert log[1]["loss"] == pytest.approx(expected, rel=1e-3)
    assert log[1]["margin"] == pytest.approx(0.5 * (chosen - rejected), rel=1e-3)


PATHS = [(RIGHT, True), (WRONG, True), (SHORT_WRONG, True), (RIGHT, False), (SHORT_WRONG, True)]
"""Text, and True if it ended; the fourth was truncated, the fifth failed."""
MEAN_OF_OTHERS = [1 / 3, 2 / 3, 2 / 3, 1 / 3]
"""Rewards are 1, 0, 0, 1 and none: for the first path the others have 0, 0 and 1."""
LEARNED = (0, 1, 2)
"""Paths with a gradient: truncated ones are masked, those without a reward have no advantage."""


def roll_out(prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
    """The five PATHS, as drawn by the policy."""
    tokenizer = trainer.processing_class
    eos = [tokenizer.eos_token_id]
    ids = [tokenizer.encode(text, add_special_tokens=False) for text, _ in PATHS]
    ids = [tokens + eos * ended for tokens, (_, ended) in zip(ids, PATHS, strict=True)]
    ids[4] = eos
    return {
        "prompt_ids": [tokenizer.encode(text, add_special_tokens=False) for text in prompts],
        "completion_ids": ids,
        "logprobs": [[0.0] * len(tokens) for tokens in ids],
        "failed": [False] * 4 + [True],
    }


def token_sums(ratios: list[list[float]], advantages: list[float], *, high: float) -> list[float]:
    """Of each path the sum over its tokens of the clipped objective."""
    return [
        sum(min(r * a, min(max(r, 0.8), 1 + high) * a) for r in path)
        for path, a in zip(ratios, advantages, strict=True)
    ]


def second_loss(
    method: Variant | str, old: list[list[float]], new: list[list[float]], sign: list[int]
) -> float:
    """The loss over the three LEARNED paths of 6, 6 and 2 tokens, from their log-probabilities.

    The fifth path's end token has advantage 0 and counts as a token and as a path; the fourth
    counts as a path.
    """
    ratios = [
        [math.exp(n - o) for n, o in zip(*pair, strict=True)] for pair in zip(new, old, strict=True)
    ]
    products = [math.exp(sum(n) - sum(o)) for n, o in zip(new, old, strict=True)]
    plain = [0.5 * s for s in sign]
    # The deviation of 1, 0, 0, 1 is (4 * 0.25 / 3)^(1/2) = 0.57735; TRL adds 0.0001.
    scaled = [0.5 * s / (0.57735 + 1e-4) for s in sign]
    match method:
        case Variant.DAPO:
            return -sum(token_sums(ratios, plain, high=0.28)) / 15
        case Variant.GRPO:
            sums = token_sums(ratios, scaled, high=0.2)
            return -(sums[0] / 6 + sums[1] / 6 + sums[2] / 2) / 5
        case Variant.DR_GRPO:
            return -sum(token_sums(ratios, plain, high=0.2)) / (5 * LIMIT)
        case Variant.GSPO:
            means = [p ** (1 / len(n)) for p, n in zip(products, new, strict=True)]
            clipped = [min(max(m, 1 - 3e-4), 1 + 4e-4) for m in means]
            pairs = zip(means, clipped, scaled, strict=True)
            return -sum(min(m * a, c * a) for m, c, a in pairs) / 5
        case Variant.CISPO:
            weighted = [
                a * sum(min(r, 5.0) * n for r, n in zip(*path, strict=True))
                for a, *path in zip(scaled, ratios, new, strict=True)
            ]
            return -sum(weighted) / 15
        case _:
            means = [p ** (1 / len(n)) for p, n in zip(products, new, strict=True)]
            clipped = [min(max(m, 0.8), 1.2) for m in means]
            rows = zip(means, clipped, [2 / 3 * s for s in sign], new, strict=True)
            return -sum(min(m * a, c * a) * len(n) for m, c, a, n in rows) / 5


@pytest.fixture(scope="module")
def verifier():
    """The real verifier."""
    with open_verifier(VerifyParams()) as opened:
        yield opened


@pytest.mark.parametrize("method", [*VARIANTS, "rloo"])
def test_loss_of_a_second_step_on_the_same_paths(method, base, verifier, tmp_path):
    """After one step on the draw the ratios are no longer 1, so the logged loss depends on
    advantages, clips, masks and averaging.
    """
    make_trainer = factory_of(method, roll_out, verifier=verifier, group_size=5, updates=2)
    log, before, after = trained(make_trainer, base, tmp_path, batch=5)
    tokens = [before.tokens(*PATHS[place][:1]) for place in LEARNED]
    old, new = ([scores.of(ids) for ids in tokens] for scores in (before, after))
    pairs = zip(itertools.chain(*new), itertools.chain(*old), strict=True)
    ratios = [math.exp(n - o) for n, o in pairs]
    assert min(ratios) < 0.8
    assert max(ratios) > 1.28
    assert log[0]["reward"] == pytest.approx(0.5)
    assert log[1]["loss"] == pytest.approx(second_loss(method, old, new, [1, -1, -1]), rel=1e-3)
    # Before the first step all ratios are 1.
    assert log[0]["loss"] == pytest.approx(
        second_loss(method, old, old, [1, -1, -1]), rel=1e-3, abs=1e-6
    )


ALL_WRONG = [(WRONG, True), (SHORT_WRONG, True), (WRONG, True)]
ONE_JUDGED = [(RIGHT, True), (WRONG, True), (SHORT_WRONG, True)]


@pytest.mark.parametrize("paths", [ALL_WRONG, ONE_JUDGED], ids=["all wrong", "one judged"])
# The other variants share the advantages of one of these.
@pytest.mark.parametrize("method", [Variant.DAPO, Variant.GRPO, "rloo"])
def test_a_group_without_different_rewards_changes_nothing(method, paths, base, verifier, tmp_path):
    """Equal rewards, or one reward beside failed paths: no change of the weights, and no NaN."""

    def drawn(prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
        tokenizer = trainer.processing_class
        ids = [[*tokenizer.encode(text), tokenizer.eos_token_id] for text, _ in paths]
        return {
            "prompt_ids": [tokenizer.encode(text) for text in prompts],
            "completion_ids": ids,
            "logprobs": [[0.0] * len(tokens) for tokens in ids],
            "failed": [False, *[paths is ONE_JUDGED] * 2],
        }

    make_trainer = factory_of(method, drawn, verifier=verifier, group_size=3)
    log, before, after = trained(make_trainer, base, tmp_path, batch=3)
    assert [entry["reward"] for entry in log] == [float(paths is ONE_JUDGED)] * 2
    assert [entry["loss"] for entry in log] == [0, 0]
    for name, weight in before.model.state_dict().items():
        assert weight.equal(after.model.state_dict()[name])
