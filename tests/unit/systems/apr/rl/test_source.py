"""Rows of rollouts as rewarded token sequences, the draws of a model in this process, and rewards by hand."""

from functools import partial

import pytest
from transformers import AutoTokenizer

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.apr import AprRlParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.apr.countdown import lines
from pipeline_lib.systems.apr.countdown.grammar import read_problem
from pipeline_lib.systems.apr.problem_lines import countdown_problem
from pipeline_lib.systems.apr.rl import ThreadRollouts, count_row, reward_of
from pipeline_lib.systems.apr.rollouts import rollout_fun
from pipeline_lib.systems.apr.tasks import task_of
from pipeline_lib.systems.apr.training_draws import ThreadDraws
from pipeline_lib.train.weights.policies import load_policy
from tests.unit.engines.served_model import served
from tests.unit.systems.apr.learned_model import SOLVED, UNSOLVED, WINDOW, record, trace

TRACES = trace(*SOLVED), trace(*UNSOLVED)
PROMPTS = [found.sequences[0].prefix for found in TRACES]


class ProblemsOfPrompts(dict[str, Problem]):
    """The problem that a prompt states."""

    def __missing__(self, prompt):
        return countdown_problem(prompt, read_problem(prompt))


IN_PROCESS = ThreadDraws(
    problems=ProblemsOfPrompts(), task_of=partial(task_of, record(), verify=VerifyParams())
)


@pytest.fixture(scope="module")
def policy(thread_model):
    return load_policy(str(thread_model))


@pytest.fixture(scope="module")
def tokenizer(thread_model):
    return AutoTokenizer.from_pretrained(thread_model)


def draw(policy, rollouts_of, prompts, step=0):
    source = ThreadRollouts(rollouts_of=rollouts_of, rl=AprRlParams(), window=WINDOW, seed=3)
    return source.draw(prompts, model=policy.model, tokenizer=policy.tokenizer, step=step)


def given(rows):
    """A callable as `rollout_fun` that returns ``rows``."""
    return lambda _model, _prefixes, **_: rows


def sequence(prefix, output, ids, *, role="parent", round_number=0, child=None):
    made = {"prefix": prefix, "output": output, "role": role, "round": round_number, "child": child}
    return made | ({} if ids is None else {"output_ids": ids})


def test_sequences_are_those_of_the_traces(policy, tokenizer):
    """A model that learned two traces draws their sequences greedily, with their end tokens."""
    rows = IN_PROCESS(
        policy.model, PROMPTS, temperature=0.0, tokenizer=policy.tokenizer, window=WINDOW, seed=1
    )
    drawn = draw(policy, given(rows), PROMPTS)
    assert [one.reward for one in drawn] == [1.0, 0.0]
    assert [one.counts["children"] for one in drawn] == [3, 3]
    for rollout, found in zip(drawn, TRACES, strict=True):
        rows = [(tokenizer.encode(one.prefix), one.output) for one in found.sequences]
        assert [one.loss_from for one in rollout.sequences] == [len(prefix) for prefix, _ in rows]
        assert [one.ids_L.tolist() for one in rollout.sequences] == [
            [*prefix, *tokenizer.encode(output), tokenizer.eos_token_id] for prefix, output in rows
        ]


def test_a_server_drives_the_same_training(policy, thread_model):
    """`rollout_fun` with its server and begin token bound, as it is: the sequences of the model in process."""
    here = draw(policy, IN_PROCESS, PROMPTS, step=2)
    with served(thread_model) as url:
        there = draw(
            policy,
            lambda _model, prompts, **options: rollout_fun(url, prompts, "", **options),
            PROMPTS,
            step=2,
        )
    assert [one.counts for one in there] == [one.counts for one in here]
    assert [[row.ids_L.tolist() for row in one.sequences] for one in there] == [
        [row.ids_L.tolist() for row in one.sequences] for one in here
    ]


def test_a_step_is_drawn_again_bit_by_bit(policy):
    """The same step gives equal rows; its rollouts of one prompt, and those of another step, differ."""
    prompt = "Moving to Node #0\nCurrent State: 12:[2, 5, 8], Operations: []"
    shown = [
        [
            [row.ids_L.tolist() for row in one.sequences]
            for one in draw(policy, IN_PROCESS, [prompt] * 6, step)
        ]
        for step in (4, 4, 5)
    ]
    assert shown[0] == shown[1]
    assert shown[0] != shown[2]
    assert len({str(one) for one in shown[0]}) > 1


def test_drawing_leaves_the_model_as_it_was(policy):
    """A model in training mode is one afterwards, and its weights still take gradients."""
    policy.model.train()
    draw(policy, IN_PROCESS, PROMPTS[:1])
    assert policy.model.training
    assert all(weight.requires_grad for weight in policy.model.parameters())


def test_forced_text_has_no_loss(policy, tokenizer):
    """After a forged join the opener of a spawn block is forced: it is in the prefix of what follows."""
    begun = f"{PROMPTS[0]}\nExploring Operation: 2+4=6, Resulting Numbers: [6, 9]"
    forced = f"{begun}\n{lines.CALL}"
    ids = tokenizer.encode(f"\n{lines.END_CALL}")
    rows = [
        {
            "seqs": [
                sequence(PROMPTS[0], begun.removeprefix(PROMPTS[0]), [9, 8]),
                sequence(forced, f"\n{lines.END_CALL}", [*ids, tokenizer.eos_token_id]),
            ],
            "is_correct": False,
            "claim": None,
        }
    ]
    [rollout] = draw(policy, given(rows), PROMPTS[:1])
    further = rollout.sequences[1]
    assert further.ids_L[: further.loss_from].tolist() == tokenizer.encode(forced)
    assert further.ids_L[further.loss_from :].tolist() == [*ids, tokenizer.eos_token_id]


def test_a_sequence_without_ids_is_counted_and_left_out(policy):
    """A text that was cut within a token; the rest of the rollout is trained on."""
    rows = [
        {
            "seqs": [sequence(PROMPTS[0], "\n", None), sequence(PROMPTS[0], "\n1", [5, 6])],
            "is_correct": True,
            "claim": "",
        }
    ]
    [rollout] = draw(policy, given(rows), PROMPTS[:1])
    assert len(rollout.sequences) == 1
    assert rollout.counts["lost_sequences"] == 1


def test_a_failed_rollout_has_no_reward(policy):
    """It is neither right nor wrong, nor is one whose child failed: its result may be what is missing."""
    drawn = {"seqs": [sequence(PROMPTS[0], "\n1", [5, 6])], "is_correct": False, "claim": None}
    rows = [
        {"seqs": [], "is_correct": False, "error": "refused"},
        {**drawn, "child_error": "refused"},
        drawn,
    ]
    failed, lacks_a_child, wrong = draw(policy, given(rows), PROMPTS[:1] * 3)
    for rollout in (failed, lacks_a_child):
        assert (rollout.reward, list(rollout.sequences)) == (None, [])
    assert (wrong.reward, len(wrong.sequences)) == (0.0, 1)


def test_a_draw_of_failures_ends_the_training(policy):
    """With the first reason, instead of steps that learn nothing."""
    rows = [{"seqs": [], "is_correct": False, "error": f"refused {n}"} for n in (1, 2)]
    with pytest.raises(ReasonloopError, match="step 5: every rollout failed; the first: refused 1"):
        draw(policy, given(rows), PROMPTS, step=4)
    drawn = {"seqs": [sequence(PROMPTS[0], "\n1", [5, 6])], "is_correct": False, "claim": None}
    with pytest.raises(ReasonloopError, match="every rollout failed; the first: a child"):
        draw(policy, given([{**drawn, "child_error": "a child"}] * 2), PROMPTS)


def test_an_engine_without_ids_is_refused(policy):
    """In one line, before any update."""
    rows = [{"seqs": [sequence(PROMPTS[0], "\n", None)], "is_correct": True, "claim": ""}]
    with pytest.raises(ReasonloopError, match="gives no token ids"):
        draw(policy, given(rows), PROMPTS[:1])


def test_the_critical_path_is_the_parent_and_the_longest_children(tokenizer):
    """Parent 3 + 2 + 1, children 4 and 7 in round 0, 5 in round 1: drawn 22, critical 6 + 7 + 5 = 18."""
    row = {
        "seqs": [
            sequence("a", "b", [1, 2, 3]),
            sequence("c", "d", [1] * 4, role="child", child=0),
            sequence("e", "f", [1] * 7, role="child", child=1),
            sequence("g", "h", [1, 2], round_number=1),
            sequence("i", "j", [1] * 5, role="child", round_number=1, child=0),
            sequence("k", "l", [1], round_number=2),
        ],
        "is_correct": True,
    }
    assert count_row(row, tokenizer) == {
        "children": 3,
        "drawn_tokens": 22,
        "critical_tokens": 18,
    }


SIX = {"children": 6, "drawn_tokens": 400, "critical_tokens": 200}


@pytest.mark.parametrize(
    ("rule", "penalty", "counts", "reward"),
    [
        ("binary", 0.02, SIX, 1.0),
        ("speed", 0.02, SIX, 1.1),  # 1 - 200/400 is above 0.2: 1 + 0.5 x 0.2
        ("speed", 0, SIX | {"critical_tokens": 360}, 1.05),  # 1 + 0.5 x 0.1
        ("speed", 0, SIX | {"critical_tokens": 400}, 1.0),  # a serial rollout saves nothing
        ("threads", 0.02, SIX, 0.88),  # 1 - 6 x 0.02
        ("length", 0.02, SIX, 0.92),  # 1 - 4 x 0.02
        ("threads", 10, SIX, 0),  # never worse than a wrong claim
        ("length", 10, SIX, 0),
    ],
)
def test_rewards_of_a_right_claim(rule, penalty, counts, reward):
    """Six children, 400 drawn tokens, 200 of them critical."""
    rl = AprRlParams(reward=rule, penalty=penalty)
    assert reward_of(rl, **counts) == pytest.approx(reward)
