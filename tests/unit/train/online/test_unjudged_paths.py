"""Paths that the verifier failed to judge do not change the policy."""

import pathlib

from transformers import AutoModelForCausalLM

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import MathLimits, VerifyParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.train.online.grpo import trainer_factory
from pipeline_lib.train.online.live_rollouts import LiveRollouts
from pipeline_lib.train.online.rewards import make_verified_reward, verified_alone
from pipeline_lib.train.online.rollouts import make_rollout_func
from pipeline_lib.train.phases import Phase, Row, Schedule, TrainContext, run_phase
from pipeline_lib.verdicts import Status, Verdict
from pipeline_lib.verify.dispatch import open_verifier

GOLDS = {
    "math": MathGold(answer="x^2-1"),
    "unreadable": MathGold(answer="\\frac{"),
    "broken": CountdownGold(numbers=None, target=5),
}
COMPLETIONS = [
    ("math", "\\boxed{(x-1)(x+1)}", 1.0),
    ("math", "\\boxed{x}", 0.0),
    ("math", "\\boxed{\\int_0^1 (x+y+z+w+a+b+c)^{60} dx}", None),
    ("unreadable", "\\boxed{x}", None),
    ("broken", "3+2=5", None),
    ("math", "no answer", 0.0),
]


def test_rewards_of_a_real_verifier():
    """Right is 1, wrong is 0; a comparison without end, a bad gold and a verifier's bug are None."""
    limits = VerifyParams(math=MathLimits(soft_timeout_s=0.5, hard_timeout_s=30.0))
    names, texts, expected = zip(*COMPLETIONS, strict=True)
    with open_verifier(limits) as verifier:
        rewards = make_verified_reward(GOLDS, verifier)(completions=texts, problem_id=names)
    assert rewards == list(expected)


class HalfTheTexts:
    """A verifier that judges texts of even length right, and all others ``otherwise``."""

    def __init__(self, otherwise: Verdict) -> None:
        self.otherwise = otherwise
        self.found: list[bool | None] = []

    def judge(self, items):
        right = Verdict(status=Status.CORRECT, strict=True, lenient=True)
        verdicts = [self.otherwise if len(item.text) % 2 else right for item in items]
        self.found += [verdict.strict for verdict in verdicts]
        return verdicts


def changes_weights(
    verifier: HalfTheTexts, base: pathlib.Path, rows: list[Row], work: pathlib.Path
) -> bool:
    """True if two steps of GRPO with these verdicts change any weight."""
    live = LiveRollouts(decoding=Decoding(max_new_tokens=64), seed=5)
    reward = make_verified_reward({row["problem_id"]: GOLDS["math"] for row in rows}, verifier)
    make_trainer = trainer_factory(
        rows,
        TrainParams(method=Method.GRPO, group_size=4),
        rewards=verified_alone(reward, verifier),
        make_rollouts=lambda _source: make_rollout_func(live),
        max_new_tokens=64,
    )
    schedule = Schedule(
        steps=2,
        lr=0.01,
        batch_size=16,
        micro_batch_size=16,
        checkpoint_every=2,
    )
    phase = Phase(name="grpo", schedule=schedule, make_trainer=make_trainer)
    context = TrainContext(work=work, key="key", seed=5, threads=1)
    trained = run_phase(phase, str(base), context)
    before = AutoModelForCausalLM.from_pretrained(base).state_dict()
    after = AutoModelForCausalLM.from_pretrained(trained).state_dict()
    return not all(before[name].equal(after[name]) for name in before)


def test_an_unjudged_path_is_not_a_wrong_one(base, rows, tmp_path: pathlib.Path):
    """Rewards 1, 1, None, 1 are equal and change no weight; 1, 1, 0, 1 are not, and do."""
    failed = Verdict(status=Status.VERIFIER_ERROR, strict=None, lenient=None)
    wrong = Verdict(status=Status.WRONG, strict=False, lenient=False)
    unjudged, judged = HalfTheTexts(failed), HalfTheTexts(wrong)
    assert not changes_weights(unjudged, base, rows, tmp_path / "failed")
    assert changes_weights(judged, base, rows, tmp_path / "wrong")
    assert {True, None} == set(unjudged.found)
    assert {True, False} == set(judged.found)
