"""Training episodes of a synthesizer: synthesis prompts over messages of a cache.

References depend on the seed and the problem's id alone. Correctness decides which problems are kept, and in
SFT the completion; no gold is in a prompt.

Source: PaCoRe, arXiv:2601.05593: problems that are neither solved by all nor by no response, and a number of
references that varies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import ChatFormat
from pipeline_lib.params.pacore import EpisodeParams
from pipeline_lib.records import Row
from pipeline_lib.seeding import child_random
from pipeline_lib.systems.pacore.message_cache import CachedQuestion
from pipeline_lib.systems.pacore.synthesis import References, fit_prompt
from pipeline_lib.verify.answer_text import strip_reasoning


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptForm:
    """Compaction of responses, and rendering of prompts for one model."""

    chat_format: ChatFormat
    fits: Callable[[str], bool]
    message_of: Callable[[str], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """Rows {problem_id, prompt, completion, references} and what became of the questions."""

    rows: Sequence[Row]
    counts: dict[str, int]


def make_episodes(
    questions: Sequence[CachedQuestion],
    params: EpisodeParams,
    form: PromptForm,
    *,
    seed: int,
    supervised: bool,
) -> Episodes:
    """``params.draws`` episodes per kept question.

    Supervised episodes have a completion by ``params.target``; others have an empty one. A question with too
    few messages for the fewest references gives no episode.
    """
    means = [one.mean_right for one in questions]
    kept = [
        one
        for one, mean in zip(questions, means, strict=True)
        if mean is not None and 0 < mean < params.max_mean_right
    ]
    rows: list[Row] = []
    num_dropped = num_short = 0
    for question in kept:
        for draw in range(params.draws):
            episode = _Episode(question=question, params=params, form=form, seed=seed, draw=draw)
            made = episode.make(supervised=supervised)
            if made is None:
                num_short += 1
                continue
            row, dropped = made
            num_dropped += dropped
            rows.append(row)
    child_random(seed, "pacore-episodes").shuffle(rows)
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
        "without_references": sum(not row["references"] for row in rows),
        "episodes": len(rows),
    }
    return Episodes(rows=rows, counts=counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Episode:
    question: CachedQuestion
    params: EpisodeParams
    form: PromptForm
    seed: int
    draw: int

    def make(self, *, supervised: bool) -> tuple[Row, int] | None:
        """The row, and the number of references that did not fit into its prompt; None: there are too few messages.

        A supervised completion is a right response, whose message is a reference only if ``target`` allows it.
        """
        if not supervised:
            references = self._references(range(len(self.question.right)))
            return None if references is None else self._row(references)
        right = [path for path, is_right in enumerate(self.question.right) if is_right]
        chosen: int = child_random(self.seed, *self._names, "completion").choice(right)
        if child_random(self.seed, *self._names, "plain").random() < self.params.plain:
            return self._row([], chosen)
        scored = [path for path, is_right in enumerate(self.question.right) if is_right is not None]
        held_out = chosen if self.params.target == "held_out" else None
        references = self._references(scored, held_out=held_out)
        return None if references is None else self._row(references, chosen)

    @property
    def _names(self) -> tuple[str, str, int]:
        return "pacore-episode", self.question.problem.id, self.draw

    def _references(
        self, paths: Sequence[int], *, held_out: int | None = None
    ) -> References | None:
        # Other responses with the message of the held-out one would show it as well.
        hidden = None if held_out is None else self._message(held_out)
        known = [
            (path, text)
            for path in paths
            if path != held_out and (text := self._message(path)) and text != hidden
        ]
        low, high = self.params.references
        if len(known) < low:
            return None
        random = child_random(self.seed, *self._names)
        return random.sample(known, random.randint(low, min(high, len(known))))

    def _message(self, path: int) -> str | None:
        return self.form.message_of(self.question.responses[path])

    def _row(self, references: References, chosen: int | None = None) -> tuple[Row, int]:
        chat_format = self.form.chat_format
        prompt = fit_prompt(
            self.question.conversation,
            references,
            chat_format=chat_format,
            fits=self.form.fits,
        )
        row = {
            "problem_id": self.question.problem.id,
            "prompt": prompt.text,
            "completion": "" if chosen is None else self._completion(prompt.shown, chosen),
            "references": list(prompt.shown),
        }
        return row, prompt.dropped

    def _completion(self, shown: Sequence[int], chosen: int) -> str:
        question = self.question
        if self.params.target == "reference":
            chosen = next((path for path in shown if question.right[path]), chosen)
        response = question.responses[chosen]
        if not (self.params.checks and shown):
            return response
        check_text = question.problem.kind.check_text or (lambda _response: "")
        checks = (
            f"#{number}\n{check_text(self._message(path) or '')}"
            f"{'y' if question.right[path] else 'n'}\n"
            for number, path in enumerate(shown, start=1)
        )
        return f"<think>\n{''.join(checks)}</think>\n{strip_reasoning(response)}"
