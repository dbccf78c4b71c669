"""Classmates on Ray: one named actor each. A call is never sent again; Ray restarts an actor that died."""

import pathlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

import ray
from ray.exceptions import (
    ActorDiedError,
    GetTimeoutError,
    RayActorError,
    RayError,
    RayTaskError,
)
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from flows.ray.classmate_actor import ClassmateActor, Opening
from flows.run.failures import unwrapped_signals
from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.whole import ExecutionParams
from pipeline_lib.systems.classmate.body import check_placed, is_exact, peer_identity, placed_text
from pipeline_lib.systems.classmate.peer import PeerFailedError, Question, check_answer

MAX_RESTARTS = 3
"""By Ray; after that the next call makes another actor."""
PLACEMENT_TIMEOUT_S = 10.0
_POLL_S = 0.2
_IMPORTS_S = 60.0
"""Of an actor's process; the rest of its start has ``serve.start_timeout_s``."""
_CLOSE_TIMEOUT_S = 30.0
"""Of an engine's server; then its actor is killed, with which it ends by itself."""
_ALONE = 0.001
"""Share of a node's own resource, which ties a bundle to the node."""


def _result(call: Any, deadline: float) -> Any:
    with unwrapped_signals():
        return ray.get(call, timeout=max(0.0, deadline - time.monotonic()))


class RayPeer:
    """Implements Peer on an actor. It is killed when a call fails, and Ray starts it again."""

    def __init__(
        self,
        peer: PeerParams,
        *,
        actor_name: str,
        options: Mapping[str, Any],
        log_folder: pathlib.Path,
    ) -> None:
        """Create the actor, or find it if an earlier try of the run has left it."""
        self.name = peer.name
        self.identity = peer_identity(peer)
        self._peer = peer
        self._log_folder = log_folder
        self._make = ray.remote(ClassmateActor).options(
            name=f"{actor_name}/{peer.name}/{self.identity}",
            get_if_exists=True,
            max_restarts=MAX_RESTARTS,
            max_task_retries=0,
            **options,
        )
        self._actor: Any = self._make.remote(peer, log_folder)
        self._is_closed = False
        self._starting_since: float | None = time.monotonic()
        """None while it takes calls."""
        self._start = ""
        """`Opening.start` of the actor that was asked last."""
        self._killed = ""
        """That of the actor that was killed last."""

    def wait(self) -> None:
        """Return once it takes calls.

        Raises:
            BadInputError: the model cannot be served.
            ReasonloopError: its process dies, or its time to start has ended.
        """
        try:
            self._await(time.monotonic() + self._start_timeout_s)
        except ReasonloopError as error:
            raise type(error)(f"classmate {self.name}: {error}") from error
        except PeerFailedError as error:
            raise ReasonloopError(f"classmate {self.name}: {error}") from error

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> list[list[Completion]]:
        """As `Peer`.

        Raises:
            PeerFailedError: as `Peer`.
        """
        deadline = time.monotonic() + timeout_s
        try:
            if self._starting_since is not None:
                self._await(deadline)
            call = self._actor.answer.remote(questions, decoding)
            found = _result(call, deadline)
        except GetTimeoutError:
            reason = f"no answer within {timeout_s:g} s"
        except RayActorError as error:
            self._starting_since = time.monotonic()
            raise PeerFailedError(f"its actor has died: {reason_of(error)}") from error
        except RayError as error:  # raised by the engine; or a lost node or object, no memory
            reason = reason_of(error.cause if isinstance(error, RayTaskError) else error)
        except ReasonloopError as error:
            reason = str(error)
        else:
            try:
                return check_answer(found, questions)
            except PeerFailedError as error:
                reason = str(error)
        self._start_again()
        raise PeerFailedError(reason)

    def close(self) -> None:
        """End the actor and its engine; a call that is waited for fails."""
        self._is_closed = True
        # An engine in the actor's process ends with it.
        if self._starting_since is None and not is_exact(self._peer):
            with suppress(RayError):
                ray.get(self._actor.close.remote(), timeout=_CLOSE_TIMEOUT_S)
        ray.kill(self._actor)

    @property
    def _start_timeout_s(self) -> float:
        return _IMPORTS_S + self._peer.serve.start_timeout_s

    def _await(self, deadline: float) -> None:
        """Return once the actor has opened its engine.

        Raises:
            ReasonloopError: the engine cannot be opened, or the actor dies in it.
            PeerFailedError: it is still starting at the deadline.
        """
        while (opening := self._opening(deadline)) is None:
            self._check_start(deadline)
            time.sleep(_POLL_S)
        self._start = opening.start
        if opening.failure is not None:
            raise opening.failure
        self._starting_since = None

    def _opening(self, deadline: float) -> Opening | None:
        """Of an actor that was not killed; None if it does not answer yet."""
        call = self._actor.opening.remote()
        try:
            found: Opening = _result(call, deadline)
        except ActorDiedError as error:
            if self._is_closed:
                raise PeerFailedError("it was closed") from error
            # An actor that was killed without restarts left keeps its name until it is killed for good.
            ray.kill(self._actor)
            self._actor = self._make.remote(self._peer, self._log_folder)
            if error.actor_init_failed:
                raise ReasonloopError(f"its actor does not start: {_last_line(error)}") from error
            return None
        except RayError:  # it is restarting, or does not answer yet
            return None
        return None if found.start == self._killed else found

    def _check_start(self, deadline: float) -> None:
        assert self._starting_since is not None
        now = time.monotonic()
        starting_s = now - self._starting_since
        if starting_s > self._start_timeout_s:
            self._start_again()
        if now >= deadline:
            raise PeerFailedError(f"it is still starting after {starting_s:.0f} s")

    def _start_again(self) -> None:
        self._starting_since = time.monotonic()
        self._killed = self._start
        ray.kill(self._actor, no_restart=False)


def _last_line(error: Exception) -> str:
    """Of the traceback that Ray shows for a constructor."""
    return str(error).strip().splitlines()[-1]


@contextmanager
def ray_peers(
    peers: Sequence[PeerParams],
    execution: ExecutionParams,
    *,
    actor_name: str,
    log_folder: pathlib.Path,
) -> Iterator[list[RayPeer]]:
    """The peers as actors of the connected Ray, for the block; they start at once.

    Args:
        peers: the peers.
        execution: with the GPUs of a training.
        actor_name: beginning of the actors' names, which no other run of the cluster has.
        log_folder: for logs of engines.

    Raises:
        BadInputError: Ray has no room for them at present, or a model cannot be served.
        ReasonloopError: an actor does not start.
    """
    policy_gpus = _policy_gpus(execution)
    with ExitStack() as stack:
        all_options = stack.enter_context(_placed(peers, policy_gpus))
        opened = [
            stack.enter_context(
                closing(
                    RayPeer(peer, actor_name=actor_name, options=options, log_folder=log_folder)
                )
            )
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
    all_options = [{"num_cpus": peer.num_cpus, "num_gpus": peer.num_gpus} for peer in peers]
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
            all_options[place] |= _within(group, index)
        yield all_options
    finally:
        remove_placement_group(group)


def _within(group: PlacementGroup, index: int) -> dict[str, Any]:
    return {
        "scheduling_strategy": PlacementGroupSchedulingStrategy(
            placement_group=group, placement_group_bundle_index=index
        )
    }
