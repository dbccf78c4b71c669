"""Verifiers that stay open between batches, since opening one costs what some hundred items cost.

For workers that judge shard after shard. Who judges one long batch opens a verifier of his own.
"""

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verification.dispatch import Verifier, open_verifier


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Kept:
    params: VerifyParams
    verifier: Verifier


_lock = threading.Lock()
_idle: list[_Kept] = []


@contextmanager
def kept_verifier(params: VerifyParams) -> Iterator[Verifier]:
    """A verifier with one worker, for one thread at a time; kept for the next who asks like this.

    There are as many as threads that judge at once. All that idle are closed when other params are
    asked for, and at the end of the process; killed outright, it takes them along. One whose user
    failed is closed, not kept: nobody knows what it has in hand.
    """
    kept = _taken(params)
    try:
        yield kept.verifier
    except BaseException:
        kept.verifier.close()
        raise
    with _lock:
        _idle.append(kept)


def _taken(params: VerifyParams) -> _Kept:
    with _lock:
        others = [kept for kept in _idle if kept.params != params]
        same = [kept for kept in _idle if kept.params == params]
        found = same.pop() if same else None
        _idle[:] = same
    for kept in others:
        kept.verifier.close()
    return found or _Kept(params=params, verifier=open_verifier(params))


def close_kept_verifiers() -> None:
    """Close all that idle."""
    with _lock:
        closing, _idle[:] = list(_idle), []
    for kept in closing:
        kept.verifier.close()


atexit.register(close_kept_verifiers)
# Their sockets lead to the parent's processes: two that ask at once would get each other's replies.
os.register_at_fork(after_in_child=_idle.clear)
