"""Draws of a training with peers: what is asked and answered, their files, and the record of the peers.

A draw asks about distinct prefixes. Seeds depend on the root seed, the peer's name, the step and the place of the
first path with the prefix, for the empty prefix on the root seed, the peer's name and the problem. So a resumed
training asks what an unbroken one asks.

Its file is for `show`, for counts of failures, and for resume: the success from the empty prefix is asked once per
problem, and read from the draws before the checkpoint.
"""

import pathlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from statistics import fmean
from typing import Any

from pydantic import BaseModel

from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.records import Problem
from pipeline_lib.seeding import consecutive_seeds
from pipeline_lib.store.files import read_checked, read_json, write_json
from pipeline_lib.systems.classmate.cut import Prefix
from pipeline_lib.systems.classmate.peer import (
    NO_ROOM,
    Continuation,
    Continuations,
    Peers,
    Question,
    judge_answers,
)
from pipeline_lib.verify.dispatch import Verifier

_FILE = "classmates.json"


class TrainedPeers(BaseModel, frozen=True):
    """The peers of a training, and what their success was used for."""

    identities: dict[str, str]
    """By name; see `peer_identity`."""
    weight: float
    bonus: str

    @property
    def is_control(self) -> bool:
        """True if a hash or chance dealt the bonus."""
        return self.bonus != "peers" and self.weight > 0


def write_record(
    folder: pathlib.Path, identities: Mapping[str, str], params: ClassmateParams
) -> None:
    """Write the record into the folder of a policy; it is no part of the model's identity."""
    record = TrainedPeers(
        identities=dict(identities), weight=params.classmate_reward_weight, bonus=params.bonus
    )
    write_json(folder / _FILE, record.model_dump())


def read_record(model: str) -> TrainedPeers | None:
    """The record of a policy; None if it was trained without peers, or is no folder."""
    file = pathlib.Path(model) / _FILE
    return read_checked(file, TrainedPeers, remedy="train it again") if file.is_file() else None


EmptySuccess = dict[str, dict[str, float]]
"""By peer and problem: success of continuations of the empty prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardedPath:
    """One path of the actor with one of its prefixes."""

    problem_id: str
    completion: str
    prefix: str | None
    """Text that the peers continued; None for a path that could not be drawn or cut."""
    scores: Mapping[str, float | None]
    """By peer."""
    base: float | None
    bonus: float | None
    """Of this prefix."""
    reward: float | None
    """With the mean bonus of its prefixes."""
    cut: int = 0
    """Which of its prefixes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPrefix:
    """A prefix that was asked once for all paths that have it."""

    problem_id: str
    prefix: str
    continuations: Mapping[str, Sequence[Continuation]]
    """By peer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawRecord:
    """One draw."""

    step: int
    """Optimizer steps before it."""
    figures: Mapping[str, float]
    failures: Mapping[str, Mapping[str, int]]
    """By peer: continuations without a verdict, by reason."""
    empty: EmptySuccess
    """Scores of empty prefixes that this draw added."""
    paths: Sequence[RewardedPath]
    prefixes: Sequence[AskedPrefix]


def draw_files(folder: pathlib.Path) -> Iterator[tuple[int, pathlib.Path]]:
    """Step and file of each draw in ``folder``, in order; other files are left out."""
    for path in sorted(folder.glob("step-*.json")):
        if (number := path.stem.removeprefix("step-")).isdecimal():
            yield int(number), path


def read_draw(path: pathlib.Path) -> DrawRecord:
    """Read the file of a draw.

    Raises:
        BadInputError: it is missing or is no draw; the message names it.
    """
    return read_checked(path, DrawRecord, remedy="give the file of a draw")


def write_draw(folder: pathlib.Path, record: DrawRecord) -> None:
    """Write the file of a draw; an earlier one of its step is replaced."""
    write_json(folder / f"step-{record.step:06d}.json", asdict(record))


def rewind(folder: pathlib.Path, *, step: int) -> EmptySuccess:
    """Remove the draws from ``step`` on; return what those before it know of empty prefixes."""
    known: EmptySuccess = {}
    for number, path in draw_files(folder):
        if number >= step:
            path.unlink()
            continue
        added: Mapping[str, Mapping[str, Any]] = read_json(path)["empty"]
        for name, successes in added.items():
            known.setdefault(name, {}).update(successes)
    return known


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
    tokens: Mapping[str, int]
    """By peer: read and written for the draw."""


@dataclass(slots=True, kw_only=True)
class PeerQuery:
    """Asks the peers about one draw after another."""

    peers: Peers
    verifier: Verifier
    num_continuations: int
    seed: int
    folder: pathlib.Path
    """Of the files of draws."""
    _empty: EmptySuccess | None = field(default=None, init=False)
    """Known so far; None before the first draw of this process."""

    def start(
        self, problems: Sequence[Problem], prefixes: Sequence[Prefix | None], *, step: int
    ) -> Callable[[], Answered]:
        """Ask about the prefixes of a draw, one or more a path, and return at once what waits for the answers.

        The empty prefixes are a call of their own, so that the other call is the same whether they are known or not.
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
            answers = [wait_empty(), wait_asked()]
            from_empty = judge_answers(empty, answers[0], self.verifier)
            judged = judge_answers(asked, answers[1], self.verifier)
            added: EmptySuccess = {}
            for name, found in from_empty.items():
                pairs = zip(empty[name], map(_success, found), strict=True)
                added[name] = {one.problem.id: share for one, share in pairs if share is not None}
                known.setdefault(name, {}).update(added[name])
            by_key = {name: dict(zip(places, found, strict=True)) for name, found in judged.items()}
            empty_of = {name: [known[name].get(one.id) for one in problems] for name in judged}
            tokens = {
                name: sum(
                    one.prompt_tokens + one.completion_tokens
                    for found in answers
                    for one in chain(*found[name])
                )
                for name in names
            }
            return _answered(keys, by_key, from_empty, empty=empty_of, added=added, tokens=tokens)

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
    tokens: Mapping[str, int],
) -> Answered:
    every = {name: [*from_empty[name], *found.values()] for name, found in by_key.items()}
    failures = {
        name: dict(Counter(one.failure for one in chain(*found) if one.failure is not None))
        for name, found in every.items()
    }
    return Answered(
        scores={
            name: [_success(found[key]) if key is not None else None for key in keys]
            for name, found in by_key.items()
        },
        empty=empty,
        crowded={
            name: [key is not None and _lacks_room(found[key]) for key in keys]
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
        tokens=tokens,
        failures=failures,
        failure_rates={
            name: sum(failures[name].values()) / max(1, sum(map(len, found)))
            for name, found in every.items()
        },
    )


def _success(continuations: Iterable[Continuation]) -> float | None:
    """Share of right ones among those with a verdict; None without any."""
    known = [float(one.right) for one in continuations if one.right is not None]
    return fmean(known) if known else None


def _lacks_room(continuations: Iterable[Continuation]) -> bool:
    """True if the prefix leaves the peer no room."""
    return any((one.failure or "").startswith(NO_ROOM) for one in continuations)
