"""The stages that ask peers, each of which has a process of its own: a Ray actor, or one of this machine."""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice

from flows.ray.runners import cluster
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.systems.classmate.peer import Peer
from pipeline_lib.systems.classmate.peer_engine import check_peer, is_exact, replicas_of
from pipeline_lib.systems.classmate.replicas import ReplicatedPeer
from pipeline_lib.systems.classmate.stages import CLASSMATE
from pipeline_lib.systems.classmate.work import evaluation as evaluated
from pipeline_lib.systems.classmate.work import train as trained
from pipeline_lib.systems.stage import Run
from pipeline_lib.telemetry import record_event
from tasks.stages import training_task


@contextmanager
def opened_peers(
    peers: Sequence[PeerParams],
    execution: ExecutionParams,
    *,
    root: pathlib.Path,
) -> Iterator[Sequence[Peer]]:
    """The peers on the runner of ``execution``, ready for calls, for the block; on Ray, within `cluster`.

    Args:
        peers: Models, engines and resources.
        execution: The runner; on Ray with the GPUs of a training.
        root: Workspace of the run, for logs and a note.

    Raises:
        BadInputError: an unknown model or engine, a server that would have to render the prompts, or as
            `check_resources`; nothing is started. A model that cannot be served.
        ReasonloopError: a peer does not start.
    """
    checked = [check_peer(peer) for peer in peers]
    if not checked:
        yield []
        return
    check_resources(checked, execution)
    replicas = [one for peer in checked for one in replicas_of(peer)]
    log_folder = root.resolve() / "logs"
    opening: AbstractContextManager[Sequence[Peer]]
    if execution.runner == "thread":
        from pipeline_lib.systems.classmate.processes import process_peers  # noqa: PLC0415 - not with Ray

        opening = process_peers(replicas, log_folder=log_folder)
    else:
        from flows.ray.peers import ray_peers  # noqa: PLC0415 - thread runs need no Ray

        opening = ray_peers(replicas, execution, log_folder=log_folder)
    with opening as found:
        # Once the peers are there: a refusal leaves no file.
        if (note := inexact_note(checked)) is not None:
            record_event(root, "note", text=note)
        yield _joined(checked, found)


def _joined(peers: Sequence[PeerParams], opened: Sequence[Peer]) -> list[Peer]:
    """The peers, of each of which the ``replicas`` were opened."""
    left = iter(opened)
    found = [(peer.name, [*islice(left, peer.replicas)]) for peer in peers]
    return [own[0] if len(own) == 1 else ReplicatedPeer(name, own) for name, own in found]


@contextmanager
def running_peers(
    peers: Sequence[PeerParams], execution: ExecutionParams, *, root: pathlib.Path
) -> Iterator[Sequence[Peer]]:
    """As `opened_peers`, for a training or an evaluation outside a flow: with a Ray for the block if peers are on it."""
    with (
        cluster(execution) if peers else nullcontext(),
        opened_peers(peers, execution, root=root) as found,
    ):
        yield found


def check_resources(peers: Sequence[PeerParams], execution: ExecutionParams) -> None:
    """Check, before any work, that the connected Ray can place the peers, or this machine for processes.

    Raises:
        BadInputError: it has too few GPUs or CPUs, or lacks an engine.
    """
    peers = [one for peer in peers for one in replicas_of(peer)]
    if execution.runner == "thread":
        from pipeline_lib.systems.classmate.processes import check_machine  # noqa: PLC0415 - not with Ray

        check_machine(peers)
        return
    from flows.ray import peers as ray_peers  # noqa: PLC0415 - as above

    ray_peers.check_resources(peers, execution)


def train(run: Run) -> None:
    """Train with peers, which are opened only if there is work left; in the flow's process, which has them."""
    if not trained.is_trained(run):
        _do("classmate-train", run, trained.trained_peers(run), trained.train)


def evaluate(run: Run) -> None:
    """Compare the policies, with all peers opened if there is work left."""
    if not evaluated.is_evaluated(run):
        _do("classmate-evaluate", run, evaluated.evaluated_peers(run), evaluated.evaluate)


def _do(
    name: str,
    run: Run,
    peers: Sequence[PeerParams],
    work: Callable[[Run, Sequence[Peer]], None],
) -> None:
    with opened_peers(peers, run.params.execution, root=run.root) as opened:
        training_task(CLASSMATE.stage(name), lambda one: work(one, opened))(run)


def check_peers(run: Run) -> None:
    """Check that all peers of ``run`` can be placed; as `check_resources`."""
    for peers in (trained.trained_peers(run), evaluated.evaluated_peers(run)):
        check_resources(peers, run.params.execution)


def inexact_note(peers: Sequence[PeerParams]) -> str | None:
    """A sentence on peers that may answer a resumed training otherwise; None without any."""
    names = ", ".join(f"{peer.name} ({peer.serve.engine})" for peer in peers if not is_exact(peer))
    if not names:
        return None
    return (
        f"classmates {names}: an engine behind a server does not always draw the same text again, so a "
        "training that is resumed can differ"
    )
