"""Files of a training with peers: its draws, and the record of its peers in the folder of the policy.

A draw, one JSON file, is what was asked, answered and rewarded at a step: for `show`, for counts of failures, and
for resume. The success from the empty prefix is asked once per problem, so a resumed training reads it from the draws
before its checkpoint.
"""

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.store.files import read_checked, read_json, write_json
from pipeline_lib.systems.classmate.peer import Continuation

_FILE = "classmates.json"


class TrainedPeers(BaseModel):
    """The peers of a training, and what their success was used for."""

    model_config = ConfigDict(frozen=True)

    identities: dict[str, str]
    """By name; see `peer_identity`."""
    weight: float
    bonus: str

    @property
    def is_blind(self) -> bool:
        """True if a hash dealt the bonus."""
        return self.bonus == "blind" and self.weight > 0


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
    """One path of the actor."""

    problem_id: str
    completion: str
    prefix: str | None
    """Text that the peers continued; None for a path that could not be drawn or cut."""
    scores: Mapping[str, float | None]
    """By peer."""
    base: float | None
    bonus: float | None
    reward: float | None


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
    """What this draw added."""
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
