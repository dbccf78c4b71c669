"""Training episodes of a synthesizer: synthesis prompts over messages of a cache.

An episode's references depend on the seed and the problem's id alone. Correctness decides which problems
are kept, and in SFT which response is the completion; no gold is in a prompt.

Source: PaCoRe, arXiv:2601.05593: problems that are neither solved by all nor by no response, and a number of
references that varies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline_lib.collaborative.message_cache import CachedQuestion
from pipeline_lib.collaborative.synthesis import FittedPrompt, Reference, fit_prompt
from pipeline_lib.params.pacore import EpisodeParams
from pipeline_lib.records import Row
from pipeline_lib.seeding import child_random
from pipeline_lib.serving.chat_model import Conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedQuestion:
    """A cached question with the verdict of each response."""

    cached: CachedQuestion
    right: Sequence[bool | None]
    """By the strict score; None: the verifier failed, so the response is neither."""

    @property
    def mean_right(self) -> float | None:
        """Share of the scored responses that is right; None if none was scored."""
        scored = [one for one in self.right if one is not None]
        return sum(scored) / len(scored) if scored else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptForm:
    """Compaction of responses, and rendering of prompts for one model."""

    render: Callable[[Conversation], str]
    fits: Callable[[str], bool]
    message_of: Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """Rows {problem_id, prompt, completion, references} and what became of the questions."""

    rows: Sequence[Row]
    counts: dict[str, int]


def make_episodes(
    questions: Sequence[JudgedQuestion],
    params: EpisodeParams,
    form: PromptForm,
    *,
    seed: int,
    supervised: bool,
) -> Episodes:
    """``params.draws`` episodes per kept question.

    Supervised episodes have a right response as completion, which is not among the references; others have an
    empty one. A question with too few messages for the fewest references gives no episode.
    """
    kept = [one for one in questions if _is_kept(one, params)]
    rows: list[Row] = []
    num_dropped = num_short = 0
    for question in kept:
        for draw in range(params.draws):
            made = _episode(question, params, form, seed=seed, draw=draw, supervised=supervised)
            if made is None:
                num_short += 1
                continue
            prompt, completion = made
            num_dropped += prompt.dropped
            rows.append(
                {
                    "problem_id": question.cached.problem.id,
                    "prompt": prompt.text,
                    "completion": completion,
                    "references": list(prompt.shown),
                }
            )
    child_random(seed, "pacore-episodes").shuffle(rows)
    means = [one.mean_right for one in questions]
    counts = {
        "questions": len(questions),
        "unscored": sum(mean is None for mean in means),
        "never_right": sum(mean == 0 for mean in means),
        "too_often_right": sum(
            mean is not None and mean >= params.max_mean_right for mean in means
        ),
        "kept": len(kept),
        "too_few_messages": num_short,
        "references_dropped": num_dropped,
        "episodes": len(rows),
    }
    return Episodes(rows=rows, counts=counts)


def _is_kept(question: JudgedQuestion, params: EpisodeParams) -> bool:
    mean = question.mean_right
    return mean is not None and 0 < mean < params.max_mean_right


def _episode(
    question: JudgedQuestion,
    params: EpisodeParams,
    form: PromptForm,
    *,
    seed: int,
    draw: int,
    supervised: bool,
) -> tuple[FittedPrompt, str] | None:
    cached = question.cached
    names = ("pacore-episode", cached.problem.id, draw)
    messages = [form.message_of(text) for text in cached.responses]
    known = [Reference(path=path, text=text) for path, text in enumerate(messages) if text]
    completion = ""
    if supervised:
        right = [path for path, is_right in enumerate(question.right) if is_right]
        chosen = child_random(seed, *names, "completion").choice(right)
        completion = cached.responses[chosen]
        known = [reference for reference in known if reference.path != chosen]
    low, high = params.references
    if len(known) < low:
        return None
    random = child_random(seed, *names)
    references = random.sample(known, min(random.randint(low, high), len(known)))
    prompt = fit_prompt(cached.conversation, references, render=form.render, fits=form.fits)
    return prompt, completion
