"""Drawn branches: what is asked, in which order, from which policy, and what it costs."""

from collections import Counter

import pytest

from pipeline_lib.engines.chat_model import Message
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.params.pacore import EpisodeParams
from pipeline_lib.systems.pacore.branches import DrawnBranches
from pipeline_lib.systems.pacore.solution import PromptForm, synthesis_in_words
from pipeline_lib.train.bootstrap import make_tokenizer
from pipeline_lib.train.online.rollouts import DrawnPath
from tests.unit.systems.pacore.scripted_chat import PlainTurns

STEP = 3
QUESTIONS = {"episode 1": "1+1?", "episode 2": "2+2?"}
"""By the prompt of an episode."""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    make_tokenizer(["0123456789+?#!=\n"]).save_pretrained(folder)
    return load_tokenizer(str(folder))


class Counting:
    """The n-th path it draws is the number n; those in ``empty`` are an end token. Implements PathSource."""

    def __init__(self, *, empty=()):
        self.calls = []
        self.empty = empty
        self.drawn = 0

    def draw(self, prompts, *, model, tokenizer, step):
        self.calls.append((list(prompts), model, step))
        return [self.path(prompt, tokenizer) for prompt in prompts]

    def path(self, prompt, tokenizer):
        self.drawn += 1
        is_empty = self.drawn in self.empty
        text = [] if is_empty else tokenizer.encode(str(self.drawn), add_special_tokens=False)
        ids = [*text, tokenizer.eos_token_id]
        return DrawnPath(
            prompt_ids=[7] * len(prompt),
            completion_ids=ids,
            logprobs=[-1.0] * len(ids),
            failed=is_empty,
        )


def rendered(text):
    return PlainTurns().render([Message.user(text)])


def drawn_by(source, tokenizer, *, references=(2, 2), seed=1, step=STEP):
    branches = DrawnBranches(
        source,
        {episode: [Message.user(text)] for episode, text in QUESTIONS.items()},
        PromptForm(chat_format=PlainTurns(), fits=lambda _: True, message_of=lambda text: text),
        EpisodeParams(references=references),
        seed,
    )
    prompts = [episode for episode in QUESTIONS for _ in range(3)]
    return branches.draw(prompts, model="weights", tokenizer=tokenizer, step=step)


def test_syntheses_see_the_branches_of_their_question(tokenizer):
    """Two branches for each of two questions, then three syntheses of each on these, by the same weights and step."""
    source = Counting()
    found = drawn_by(source, tokenizer)
    (plain, *of), (asked, *also) = source.calls
    assert of == also == ["weights", STEP]
    assert plain == [rendered("1+1?")] * 2 + [rendered("2+2?")] * 2
    first, second = (synthesis_in_words(*of) for of in (("1+1?", "12"), ("2+2?", "34")))
    assert asked == [rendered(first)] * 3 + [rendered(second)] * 3
    assert len(found) == 6
    assert [len(one.prompt_ids) for one in found] == [len(text) for text in asked]


def test_the_cost_of_the_branches_is_on_the_first_path(tokenizer):
    """Four branches, each a prompt of as many tokens as characters and a completion of two: a digit and an end."""
    source = Counting()
    found = drawn_by(source, tokenizer)
    prompt = len(source.calls[0][0][0])
    assert [one.branch_tokens for one in found] == [4 * (prompt + 2), 0, 0, 0, 0, 0]


def test_a_failed_branch_is_no_reference(tokenizer):
    """The plain question is asked if both fail."""
    source = Counting(empty=(1, 3, 4))
    drawn_by(source, tokenizer)
    plain, asked = (call[0] for call in source.calls)
    assert asked[3:] == [plain[2]] * 3
    assert asked[0].count("Candidate solution") == 1


def test_the_number_of_branches_varies_by_step_and_question(tokenizer):
    """Uniform in 1 to 3: the same at the same step and seed, and each of them at some step."""

    def sizes(step):
        source = Counting()
        drawn_by(source, tokenizer, references=(1, 3), step=step)
        return tuple(Counter(source.calls[0][0]).values())

    found = [sizes(step) for step in range(20)]
    assert found == [sizes(step) for step in range(20)]
    assert {size for one in found for size in one} == {1, 2, 3}
