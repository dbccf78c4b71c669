"""The stages of a training with peers, and of one as long without."""

import pathlib
from collections.abc import Sequence

from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.systems.classmate.made_models import training_peers
from pipeline_lib.systems.classmate.peer import Peer
from pipeline_lib.systems.classmate.peer_engine import check_peer, peer_identity
from pipeline_lib.systems.classmate.preflight import check_has_peer
from pipeline_lib.systems.classmate.problem_files import read_problems
from pipeline_lib.systems.classmate.training import ActorTraining, failure_notes, train_actor
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_event, step_recorder


def trained_peers(run: Run) -> tuple[PeerParams, ...]:
    """The peers of the training."""
    return training_peers(run.params.classmate, run.workspace.classmate.peers)


def is_trained(run: Run) -> bool:
    """True if the actor was trained from the present base with the present peers and params."""
    identities = {peer.name: peer_identity(check_peer(peer)) for peer in trained_peers(run)}
    return _with_peers(run).is_done(identities)


def train(run: Run, peers: Sequence[Peer]) -> None:
    """Train the actor with ``peers``, as of `trained_peers`; an interrupted training is resumed.

    Raises:
        BadInputError: there is no peer, the base cannot be loaded, or the method has no place for the bonus.
    """
    check_has_peer(run.params.classmate)
    training = _with_peers(run)
    shown = step_recorder(run.root, "classmate-train")
    train_actor(training, peers, progress=shown, replaces=True)
    for text in failure_notes(training, peers):
        record_event(run.root, "note", text=text)


def train_plain(run: Run) -> None:
    """Train the actor without peers: equal problems, seeds and steps."""
    plain = _training(run, run.workspace.classmate.plain)
    shown = step_recorder(run.root, "classmate-plain")
    train_actor(plain, (), progress=shown, replaces=True)


def _with_peers(run: Run) -> ActorTraining:
    return _training(run, run.workspace.classmate.trained)


def _training(run: Run, output: pathlib.Path) -> ActorTraining:
    folders = run.workspace.classmate
    return ActorTraining(
        base=str(folders.base),
        problems=read_problems(folders.problems, "train"),
        output=output,
        draws=folders.draws,
        trackers=run.workspace.trackers(f"classmate-{output.name}"),
        params=run.params,
    )
