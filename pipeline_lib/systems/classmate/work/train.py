"""The stages of the trainings with peers, and of those without."""

import pathlib
from collections.abc import Iterator, Sequence

from pipeline_lib.params.classmate import ArmParams, PeerParams
from pipeline_lib.systems.classmate.made_models import training_peers
from pipeline_lib.systems.classmate.peer import Peer
from pipeline_lib.systems.classmate.peer_engine import check_peer, peer_identity
from pipeline_lib.systems.classmate.preflight import check_has_peer
from pipeline_lib.systems.classmate.problem_files import read_problems
from pipeline_lib.systems.classmate.training import ActorTraining, failure_notes, train_actor
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_event, step_recorder


def trained_peers(run: Run) -> tuple[PeerParams, ...]:
    """The peers of the trainings."""
    return training_peers(run.params.classmate, run.workspace.classmate.peers)


def is_trained(run: Run) -> bool:
    """True if all arms with peers were trained from the present base with the present peers and params."""
    identities = {peer.name: peer_identity(check_peer(peer)) for peer in trained_peers(run)}
    return all(training.is_done(identities) for _, training in _trainings(run, asks_peers=True))


def train(run: Run, peers: Sequence[Peer]) -> None:
    """Train the arms with ``peers``, as of `trained_peers`; an interrupted training is resumed.

    Raises:
        BadInputError: there is no peer, the base cannot be loaded, or the method has no place for the bonus.
    """
    check_has_peer(run.params.classmate)
    for name, training in _trainings(run, asks_peers=True):
        shown = step_recorder(run.root, "classmate-train", label=f"classmate-train {name}")
        train_actor(training, peers, progress=shown, replaces=True)
        for text in failure_notes(training, peers):
            record_event(run.root, "note", text=text)


def train_plain(run: Run) -> None:
    """Train the arms without peers: equal problems and seeds."""
    for name, training in _trainings(run, asks_peers=False):
        shown = step_recorder(run.root, "classmate-plain", label=f"classmate-plain {name}")
        train_actor(training, (), progress=shown, replaces=True)


def arm_folder(run: Run, arm: ArmParams) -> pathlib.Path:
    """Folder of the actor after a training."""
    folders = run.workspace.classmate
    return (folders.trained if arm.asks_peers else folders.plain) / arm.name


def _trainings(run: Run, *, asks_peers: bool) -> Iterator[tuple[str, ActorTraining]]:
    folders = run.workspace.classmate
    # dvc.yaml lists both as outputs.
    (folders.trained if asks_peers else folders.plain).mkdir(parents=True, exist_ok=True)
    folders.draws.mkdir(parents=True, exist_ok=True)
    problems = read_problems(folders.problems, "train")
    for arm in run.params.classmate.arms:
        if arm.asks_peers == asks_peers:
            section = run.params.classmate.of_arm(arm)
            yield (
                arm.name,
                ActorTraining(
                    base=str(folders.base),
                    problems=problems,
                    output=arm_folder(run, arm),
                    draws=folders.draws / arm.name,
                    trackers=run.workspace.trackers(f"classmate-{arm.name}"),
                    params=run.params.model_copy(update={"classmate": section}),
                ),
            )
