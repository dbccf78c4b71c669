"""Training episodes of a synthesizer, which are synthesis prompts over messages of a cache, and their filters.

References depend on the seed and the problem's id alone. Correctness decides which problems are kept, and in
SFT the completion; no gold is in a prompt.

Source: PaCoRe, arXiv:2601.05593: problems that are neither solved by all nor by no response, a number of
references that varies, and a second stage on questions chosen by the accuracy of the first one's syntheses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from pipeline_lib.engines.chat_model import ChatModel, Decoding, Request
from pipeline_lib.params.pacore import EpisodeParams
from pipeline_lib.records import Row
from pipeline_lib.seeding import child_random, child_seed
from pipeline_lib.store.journal import Journal
from pipeline_lib.store.shards import split
from pipeline_lib.systems.pacore.message_cache import CachedQuestion
from pipeline_lib.systems.pacore.solution import PromptForm, References
from pipeline_lib.verify.answer_text import strip_reasoning
from pipeline_lib.verify.dispatch import Item, Verifier


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
        prompt = self.form.fit(self.question.conversation, references)
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


OUTCOMES = ("failed", "unscored", "never_right", "always_right", "kept")
_SEEDS = "pacore-synthesis-filter"


def filter_by_syntheses(  # noqa: PLR0913 - what is drawn, and what judges and keeps it
    model: ChatModel,
    questions: Sequence[CachedQuestion],
    rows: Sequence[Row],
    *,
    decoding: Decoding,
    seed: int,
    together: int,
    verifier: Verifier,
    journal: Journal,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> dict[str, str]:
    """Draw one synthesis per row; the outcome of each question with a row, one of `OUTCOMES`.

    Kept are the questions that have a right and a wrong one: RL learns nothing from equal rewards. A synthesis
    that the verifier cannot score is neither. A question with a failed call is drawn again by the next command, and
    a question in ``journal``, which has the verdicts, is not.

    ``model`` is of the first stage, ``rows`` are online episodes of the ``questions``, of which ``together`` are
    drawn at once; this changes no result.

    Raises:
        EngineDownError: the server does not answer; finished questions are kept.
    """
    golds = {one.problem.id: one.problem.gold for one in questions}
    ordered = sorted(rows, key=lambda row: str(row["problem_id"]))
    prompts = {
        name: [str(row["prompt"]) for row in group]
        for name, group in groupby(ordered, key=lambda row: str(row["problem_id"]))
    }
    right = {name: piece["right"] for name, piece in journal.pieces.items()}
    failed: set[str] = set()
    for part in split([name for name in prompts if name not in right], together):
        asked = [(name, number) for name in part for number in range(len(prompts[name]))]
        requests = [
            Request(
                prompt=prompts[name][number],
                seeds=[child_seed(seed, _SEEDS, name, number)],
            )
            for name, number in asked
        ]
        drawn = [
            (name, one)
            for (name, _), [one] in zip(asked, model.complete(requests, decoding), strict=True)
        ]
        failed |= {name for name, one in drawn if one.error}
        scored = [(name, one.text) for name, one in drawn if name not in failed]
        verdicts = verifier.judge([Item(gold=golds[name], text=text) for name, text in scored])
        for (name, _), verdict in zip(scored, verdicts, strict=True):
            right.setdefault(name, []).append(verdict.strict)
        for name in dict.fromkeys(name for name, _ in scored):
            journal.add(name, {"right": right[name]})
        on_progress(len(right) + len(failed), len(prompts))
    return {name: "failed" if name in failed else _outcome(right[name]) for name in prompts}


def _outcome(right: Sequence[bool | None]) -> str:
    scored = [one for one in right if one is not None]
    if not scored:
        return "unscored"
    if all(scored):
        return "always_right"
    return "kept" if any(scored) else "never_right"
