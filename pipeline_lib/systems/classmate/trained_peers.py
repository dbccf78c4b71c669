"""Record of the peers that a policy was trained with, in its folder."""

import pathlib
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from pipeline_lib.params.classmate import ClassmateParams
from pipeline_lib.store.files import read_checked, write_json

_FILE = "classmates.json"


class TrainedPeers(BaseModel):
    """The peers of a training, and what their success was used for."""

    model_config = ConfigDict(frozen=True)

    identities: dict[str, str]
    """By name; see `body.peer_identity`."""
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
