"""Classmates on Ray: one actor each. A call is never sent again; an actor that fails one is replaced."""

import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from flows.run.failures import unwrapped_signals
from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.systems.classmate.peer import PeerFailedError, Question
from pipeline_lib.systems.classmate.peer_engine import (
    PeerEngine,
    check_placed,
    is_exact,
    opened_peer,
    peer_identity,
    placed_text,
)

PLACEMENT_TIMEOUT_S = 10.0
_IMPORTS_S = 60.0
"""Of an actor's process; the rest of its start has ``serve.start_timeout_s``."""
_CLOSE_TIMEOUT_S = 30.0
"""Of an engine's server; then its actor is killed, with which it ends by itself."""
_ALONE = 0.001
"""Share of a node's own resource, which ties a bundle to the node."""


class ClassmateActor:
    """The engine of a peer, in a process of Ray."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._engine: PeerEngine

    def open(self, peer: PeerParams, log_folder: pathlib.Path) -> None:
        """Open the engine, before the first call."""
        self._engine = self._stack.enter_context(opened_peer(peer, log_folder=log_folder))

    def answer(self, questions: Sequence[Question], decoding: Decoding) -> list[list[Completion]]:
        """As `PeerEngine.answer`."""
        return self._engine.answer(questions, decoding)

    def close(self) -> None:
        """Stop the engine."""
        self._stack.close()


_REMOTE: Any = ray.remote(ClassmateActor)


class RayPeer:
    """Implements Peer on an actor, which is killed and replaced when a call fails."""

    def __init__(
        self, peer: PeerParams, *, options: Mapping[str, Any], log_folder: pathlib.Path
    ) -> None:
        """Create the actor; `wait` returns when it takes calls."""
        self.name = peer.name
        self.identity = peer_identity(peer)
        self._peer = peer
        self._log_folder = log_folder
        self._options = options
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        self._actor = _REMOTE.options(**self._options).remote()
        self._opening = self._actor.open.remote(self._peer, self._log_folder)
        self._is_open = False
        self._started_s = time.monotonic()

    def wait(self) -> None:
        """Return once it takes calls.

        Raises:
            BadInputError: the model cannot be served.
            ReasonloopError: its process dies, or its time to start has ended.
        """
        try:
            self._await(self._started_s + self._start_timeout_s)
        except RayError as error:
            kind = BadInputError if isinstance(_cause(error), BadInputError) else ReasonloopError
            raise kind(f"classmate {self.name}: {self._reason(error, 0)}") from error

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> list[list[Completion]]:
        """As `Peer`; an actor that is still starting goes on, any other that fails is replaced."""
        deadline = time.monotonic() + timeout_s
        try:
            self._await(deadline)
            found: list[list[Completion]] = _result(
                self._actor.answer.remote(questions, decoding), deadline
            )
        except RayError as error:
            died = "its actor has died: " if isinstance(error, RayActorError) else ""
            reason = died + self._reason(error, timeout_s)
            started_s = time.monotonic() - self._started_s
            is_starting = isinstance(error, GetTimeoutError) and not self._is_open
            if not is_starting or started_s > self._start_timeout_s:
                ray.kill(self._actor)
                if not self._is_closed:
                    self._start()
            raise PeerFailedError(reason) from error
        return found

    def _reason(self, error: RayError, timeout_s: float) -> str:
        if isinstance(error, GetTimeoutError):
            starting_s = time.monotonic() - self._started_s
            late = f"it is still starting after {starting_s:.0f} s"
            return f"no answer within {timeout_s:g} s" if self._is_open else late
        return reason_of(_cause(error))

    def close(self) -> None:
        """End the actor and its engine; a call that is waited for fails."""
        self._is_closed = True
        # An engine in the actor's process ends with it.
        if self._is_open and not is_exact(self._peer):
            with suppress(RayError):
                ray.get(self._actor.close.remote(), timeout=_CLOSE_TIMEOUT_S)
        ray.kill(self._actor)

    @property
    def _start_timeout_s(self) -> float:
        return _IMPORTS_S + self._peer.serve.start_timeout_s

    def _await(self, deadline: float) -> None:
        """Return once the actor has opened its engine; GetTimeoutError: it has not by the deadline."""
        _result(self._opening, deadline)
        self._is_open = True


def _result(call: Any, deadline: float) -> Any:
    with unwrapped_signals():
        return ray.get(call, timeout=max(0.0, deadline - time.monotonic()))


def _cause(error: Exception) -> Exception:
    """The exception that an actor raised, without the `RayTaskError` around it."""
    return (isinstance(error, RayTaskError) and error.cause) or error


@contextmanager
def ray_peers(
    peers: Sequence[PeerParams],
    execution: ExecutionParams,
    *,
    log_folder: pathlib.Path,
) -> Iterator[list[RayPeer]]:
    """The peers as actors of the connected Ray, for the block, beside the GPUs of a training.

    Raises:
        BadInputError: Ray has no room for them at present, or a model cannot be served.
        ReasonloopError: an actor does not start.
    """
    policy_gpus = _policy_gpus(execution)
    with ExitStack() as stack:
        all_options = stack.enter_context(_placed(peers, policy_gpus))
        opened = [
            stack.enter_context(closing(RayPeer(peer, options=options, log_folder=log_folder)))
            for peer, options in zip(peers, all_options, strict=True)
        ]
        for peer in opened:
            peer.wait()
        yield opened


def check_resources(peers: Sequence[PeerParams], execution: ExecutionParams) -> None:
    """Check that the connected Ray has what policy and peers take together.

    The policy is trained or drawn from in this process meanwhile, with GPUs of its own.

    Raises:
        BadInputError: it has less.
    """
    found = ray.cluster_resources()  # type: ignore[no-untyped-call]
    gpus, cpus = found.get("GPU", 0), found.get("CPU", 0)
    check_placed(peers, gpus, cpus, place="Ray", policy_gpus=_policy_gpus(execution))


def _policy_gpus(execution: ExecutionParams) -> float:
    asked = execution.resources.train.num_gpus
    return float("GPU" in ray.cluster_resources()) if asked is None else asked  # type: ignore[no-untyped-call]


@contextmanager
def _placed(peers: Sequence[PeerParams], policy_gpus: float) -> Iterator[list[dict[str, Any]]]:
    """Hold what policy and peers take, for the block; yields the options of each peer's actor.

    Ray places all or nothing, and waits for ever for what cannot be placed.

    Raises:
        BadInputError: not within `PLACEMENT_TIMEOUT_S`.
    """
    all_options: list[dict[str, Any]] = [
        {"num_cpus": peer.num_cpus, "num_gpus": peer.num_gpus} for peer in peers
    ]
    bundles = [{"CPU": peer.num_cpus, "GPU": peer.num_gpus} for peer in peers]
    bundles = [{name: amount for name, amount in one.items() if amount} for one in bundles]
    # First: the policy takes the first GPU of this node.
    address = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    here = {f"node:{address}": _ALONE, "GPU": policy_gpus}
    policy = [here] if policy_gpus else []
    held = [place for place, bundle in enumerate(bundles) if bundle]
    if not policy and not held:
        yield all_options
        return
    group = placement_group([*policy, *(bundles[place] for place in held)])
    try:
        if not group.wait(PLACEMENT_TIMEOUT_S):
            free = ray.available_resources()  # type: ignore[no-untyped-call]
            raise BadInputError(
                f"Ray cannot place {placed_text(peers, policy_gpus)} within {PLACEMENT_TIMEOUT_S:g} s; free are "
                f"{free.get('GPU', 0):g} GPUs and {free.get('CPU', 0):g} CPUs on all nodes together; lower "
                "num_gpus or num_cpus of a classmate, or add a node"
            )
        for index, place in enumerate(held, start=len(policy)):
            all_options[place]["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                placement_group=group, placement_group_bundle_index=index
            )
        yield all_options
    finally:
        remove_placement_group(group)
