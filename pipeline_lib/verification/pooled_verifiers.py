"""Pool of open verifiers, reused between batches: opening one costs as much as some hundred items.

For workers that judge many shards. For one long batch, open a verifier directly.
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
class _Entry:
    params: VerifyParams
    verifier: Verifier


_lock = threading.Lock()
_idle: list[_Entry] = []


@contextmanager
def pooled_verifier(params: VerifyParams) -> Iterator[Verifier]:
    """A verifier with one worker, for exclusive use; returned to the pool afterwards.

    The pool grows to the number of concurrent users. Idle verifiers are closed on a request with
    other params and at exit; they die with the process if it is killed. A verifier is closed
    instead of reused if its user raised, because it may have pending items.
    """
    entry = _acquire(params)
    try:
        yield entry.verifier
    except BaseException:
        entry.verifier.close()
        raise
    with _lock:
        _idle.append(entry)


def _acquire(params: VerifyParams) -> _Entry:
    with _lock:
        others = [entry for entry in _idle if entry.params != params]
        same = [entry for entry in _idle if entry.params == params]
        found = same.pop() if same else None
        _idle[:] = same
    for entry in others:
        entry.verifier.close()
    return found or _Entry(params=params, verifier=open_verifier(params))


def close_pooled_verifiers() -> None:
    """Close all idle verifiers."""
    with _lock:
        closing, _idle[:] = list(_idle), []
    for entry in closing:
        entry.verifier.close()


atexit.register(close_pooled_verifiers)
# Their sockets belong to the parent: parent and child would read each other's replies.
os.register_at_fork(after_in_child=_idle.clear)
