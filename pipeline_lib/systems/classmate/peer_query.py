"""One draw's questions to the peers: distinct prefixes, their seeds, and the judged continuations.

Seeds depend on the root seed, the peer's name, the step and the place of the first path with the prefix, for the
empty prefix on the root seed, the peer's name and the problem. So a resumed training asks
what an unbroken one asks.
"""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline_lib.records import Problem
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.systems.classmate.cut import Prefix
from pipeline_lib.systems.classmate.peer import (
    Continuation,
    Continuations,
    Peers,
    Question,
    count_failures,
    judge_answers,
    lacks_room,
    success,
)
from pipeline_lib.systems.classmate.training_files import AskedPrefix, EmptySuccess, rewind
from pipeline_lib.verify.dispatch import Verifier

_Key = tuple[str, str]
"""Problem and prefix, which are asked once in a draw."""


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
class PeerQuery:
    """Asks the peers about one draw after another."""

    peers: Peers
    verifier: Verifier
    num_continuations: int
    seed: int
    folder: pathlib.Path
    """Of `training_files`."""
    _empty: EmptySuccess | None = field(default=None, init=False)
    """Known so far; None before the first draw of this process."""

    def start(
        self, problems: Sequence[Problem], prefixes: Sequence[Prefix | None], *, step: int
    ) -> Callable[[], Answered]:
        """Ask about the prefixes of a draw, one a path, and return at once what waits for the answers.

        The empty prefixes are a call of their own, so that the other call is the same whether they are
        known or not.

        ``problems`` and ``prefixes`` are of each path; there is nothing to ask about a prefix that is None.
        """
        if self._empty is None:
            self._empty = rewind(self.folder, step=step)
        known = self._empty
        keys = [
            None if prefix is None else (problem.id, prefix.text)
            for problem, prefix in zip(problems, prefixes, strict=True)
        ]
        places: dict[_Key, int] = {}
        for place, key in enumerate(keys):
            if key is not None:
                places.setdefault(key, place)
        names = self.peers.names
        by_id = {problem.id: problem for problem in problems}
        asked_ids = dict.fromkeys(name for name, _ in places)
        empty = {
            name: [
                self._question(by_id[own], "", name, "empty", own)
                for own in asked_ids
                if own not in known.get(name, {})
            ]
            for name in names
        }
        asked = {
            name: [
                self._question(by_id[own], prefix, name, step, place)
                for (own, prefix), place in places.items()
            ]
            for name in names
        }
        wait_empty, wait_asked = self.peers.ask(empty), self.peers.ask(asked)

        def finish() -> Answered:
            """Judge what the peers wrote; remember successes from the empty prefix."""
            from_empty = judge_answers(empty, wait_empty(), self.verifier)
            judged = judge_answers(asked, wait_asked(), self.verifier)
            added: EmptySuccess = {}
            for name, found in from_empty.items():
                pairs = zip(empty[name], map(success, found), strict=True)
                added[name] = {one.problem.id: share for one, share in pairs if share is not None}
                known.setdefault(name, {}).update(added[name])
            by_key = {name: dict(zip(places, found, strict=True)) for name, found in judged.items()}
            empty_of = {name: [known[name].get(one.id) for one in problems] for name in judged}
            return _answered(keys, by_key, from_empty, empty=empty_of, added=added)

        return finish

    def _question(self, problem: Problem, prefix: str, *seed_names: str | int) -> Question:
        seeds = consecutive_seeds(self.num_continuations, self.seed, "classmate", *seed_names)
        return Question(problem=problem, prefix=prefix, seeds=tuple(seeds))


def _answered(
    keys: Sequence[_Key | None],
    by_key: Mapping[str, Mapping[_Key, Sequence[Continuation]]],
    from_empty: Mapping[str, Continuations],
    *,
    empty: Mapping[str, list[float | None]],
    added: EmptySuccess,
) -> Answered:
    every = {name: [*from_empty[name], *found.values()] for name, found in by_key.items()}
    failures = {name: count_failures(found) for name, found in every.items()}
    return Answered(
        scores={
            name: [success(found[key]) if key is not None else None for key in keys]
            for name, found in by_key.items()
        },
        empty=empty,
        crowded={
            name: [key is not None and lacks_room(found[key]) for key in keys]
            for name, found in by_key.items()
        },
        prefixes=[
            AskedPrefix(
                problem_id=own,
                prefix=prefix,
                continuations={name: found[own, prefix] for name, found in by_key.items()},
            )
            for own, prefix in dict.fromkeys(key for key in keys if key is not None)
        ],
        added=added,
        failures=failures,
        failure_rates={
            name: sum(failures[name].values()) / max(1, sum(map(len, found)))
            for name, found in every.items()
        },
    )
