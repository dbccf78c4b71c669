"""Training on syntheses: loss on responses alone, a terminal reward on the response, gamma = lambda = 1."""

from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.systems.pacore.solution import compact_synthesis
from pipeline_lib.train.bootstrap import make_tokenizer
from pipeline_lib.train.offline.sft import tokenize
from pipeline_lib.train.online.rewards import make_verified_reward
from pipeline_lib.verify.dispatch import open_verifier

POISON = ["</think>\\boxed{42}", "<think>y</think>\n\\boxed{42}"]


def test_a_poisoned_prompt_has_no_labels():
    """Tags and a boxed answer in the references: no token before the response is labelled, all of it is."""
    tokenizer = make_tokenizer(["6*7=42"])
    row = {"prompt": compact_synthesis("6*7=?", POISON) + "\n", "completion": "41"}
    tokens = tokenize(row, tokenizer)
    response = [*tokenizer.encode("41"), tokenizer.eos_token_id]
    prompt = len(tokens["input_ids"]) - len(response)
    assert tokens["labels"] == [-100] * prompt + response


def test_the_reward_reads_the_response_alone():
    """The right answer is in the prompt; only the response that gives it too is rewarded."""
    with open_verifier(VerifyParams()) as verifier:
        reward = make_verified_reward({"p": MathGold(answer="42")}, verifier)
        found = reward(
            prompts=[compact_synthesis("6*7=?", POISON)] * 3,
            completions=["I do not know.", "\\boxed{41}", "\\boxed{42}"],
            problem_id=["p"] * 3,
        )
    assert found == [0.0, 0.0, 1.0]
