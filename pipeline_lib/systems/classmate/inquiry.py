"""One draw's questions to the peers: distinct prefixes, their seeds, and the judged continuations.

Seeds depend on the root seed, the peer's name, the step and the place of the first path with the prefix,
those of the empty prefix on the root seed, the peer's name and the problem. So a resumed training asks
what an unbroken one asks.
"""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline_lib.records import Problem
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.systems.classmate.cut import Prefix
from pipeline_lib.systems.classmate.draw_files import AskedPrefix, EmptySuccess, rewind
from pipeline_lib.systems.classmate.panel import Asked, Panel
from pipeline_lib.systems.classmate.peer import Question
from pipeline_lib.systems.classmate.scoring import (
    Continuations,
    count_failures,
    judge_answers,
    lacks_room,
    success,
)
from pipeline_lib.verify.dispatch import Verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """What is asked once in a draw."""

    problem: Problem
    prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What the peers gave for a draw."""

    scores: Mapping[str, list[float | None]]
    """By peer: success from the prefix of each path."""
    empty: Mapping[str, list[float | None]]
    """By peer: success from the empty prefix, for the problem of each path."""
    crowded: Mapping[str, list[bool]]
    """By peer: paths whose prefix leaves it no room."""
    prefixes: Sequence[AskedPrefix]
    added: EmptySuccess
    """Successes from the empty prefix that were not known before."""
    failures: Mapping[str, Mapping[str, int]]
    """By peer: continuations without a verdict, by reason."""
    failure_rates: Mapping[str, float]
    """By peer: their share of all continuations of the draw."""


@dataclass(slots=True, kw_only=True)
class Inquiry:
    """Asks a panel about one draw after another."""

    panel: Panel
    verifier: Verifier
    num_continuations: int
    seed: int
    folder: pathlib.Path
    """Of `draw_files`."""
    _empty: EmptySuccess | None = field(default=None, init=False)
    """Known so far; None before the first draw of this process."""

    def start(
        self,
        problems: Sequence[Problem],
        prefixes: Sequence[Prefix | None],
        *,
        step: int,
    ) -> "Pending":
        """Ask about the prefixes of a draw, one a path, and return at once.

        The empty prefixes are a call of their own, so that the other call is the same whether they are
        known or not.

        Args:
            problems: of each path.
            prefixes: None: there is nothing to ask.
            step: of the training.
        """
        if self._empty is None:
            self._empty = rewind(self.folder, step=step)
        keys = [
            None if prefix is None else _Key(problem=problem, prefix=prefix.text)
            for problem, prefix in zip(problems, prefixes, strict=True)
        ]
        places: dict[_Key, int] = {}
        for place, key in enumerate(keys):
            if key is not None:
                places.setdefault(key, place)
        names = [peer.name for peer in self.panel.peers]
        return Pending(
            problems=problems,
            keys=keys,
            empty=self.panel.ask({name: self._empty_questions(name, places) for name in names}),
            asked=self.panel.ask(
                {
                    name: [self._question(key, name, step, places[key]) for key in places]
                    for name in names
                }
            ),
            known=self._empty,
            verifier=self.verifier,
        )

    def _empty_questions(self, name: str, keys: Iterable[_Key]) -> list[Question]:
        """For the problems whose success from the empty prefix is unknown for the peer ``name``."""
        assert self._empty is not None
        known = self._empty.get(name, {})
        problems = {key.problem.id: key.problem for key in keys if key.problem.id not in known}
        return [
            self._question(_Key(problem=problem, prefix=""), name, "empty", problem.id)
            for problem in problems.values()
        ]

    def _question(self, key: _Key, *seed_names: str | int) -> Question:
        seeds = consecutive_seeds(self.num_continuations, self.seed, "classmate", *seed_names)
        return Question(problem=key.problem, prefix=key.prefix, seeds=tuple(seeds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """A draw that the peers are being asked about."""

    problems: Sequence[Problem]
    keys: Sequence[_Key | None]
    """What was asked for each path."""
    empty: Asked
    asked: Asked
    known: EmptySuccess
    verifier: Verifier

    def finish(self) -> Answered:
        """Wait for the peers and judge what they wrote; remember successes from the empty prefix."""
        empty = judge_answers(self.empty.questions, self.empty.answers(), self.verifier)
        judged = judge_answers(self.asked.questions, self.asked.answers(), self.verifier)
        added = {name: self._successes(name, found) for name, found in empty.items()}
        for name, successes in added.items():
            self.known.setdefault(name, {}).update(successes)
        keys = list(dict.fromkeys(key for key in self.keys if key is not None))
        by_key = {name: dict(zip(keys, found, strict=True)) for name, found in judged.items()}
        every = {name: [*empty[name], *judged[name]] for name in judged}
        failures = {name: count_failures(found) for name, found in every.items()}
        return Answered(
            scores={
                name: [success(found[key]) if key is not None else None for key in self.keys]
                for name, found in by_key.items()
            },
            empty={
                name: [self.known[name].get(problem.id) for problem in self.problems]
                for name in judged
            },
            crowded={
                name: [key is not None and lacks_room(found[key]) for key in self.keys]
                for name, found in by_key.items()
            },
            prefixes=[
                AskedPrefix(
                    problem_id=key.problem.id,
                    prefix=key.prefix,
                    continuations={name: found[key] for name, found in by_key.items()},
                )
                for key in keys
            ],
            added=added,
            failures=failures,
            failure_rates={
                name: sum(failures[name].values()) / max(1, sum(map(len, found)))
                for name, found in every.items()
            },
        )

    def _successes(self, name: str, found: Continuations) -> dict[str, float]:
        pairs = zip(self.empty.questions[name], map(success, found), strict=True)
        return {one.problem.id: share for one, share in pairs if share is not None}
