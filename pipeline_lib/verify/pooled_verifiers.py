"""Pool of open verifiers, reused between batches: opening one costs as much as some hundred items.

For workers that judge many shards. For one long batch, open a verifier directly.
"""

import atexit
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.verify.dispatch import Verifier, open_verifier

_lock = threading.Lock()
_idle: list[tuple[VerifyParams, Verifier]] = []


@contextmanager
def pooled_verifier(params: VerifyParams) -> Iterator[Verifier]:
    """A verifier with one worker, for exclusive use; returned to the pool afterwards.

    The pool grows to the number of concurrent users. Idle verifiers are closed on a request with
    other params and at exit; they die with the process if it is killed. A verifier is closed
    instead of reused if its user raised, because it may have pending items.
    """
    close_pooled_verifiers(but=params)
    with _lock:
        found = next((entry for entry in _idle if entry[0] == params), None)
        if found is not None:
            _idle.remove(found)
    verifier = open_verifier(params) if found is None else found[1]
    try:
        yield verifier
    except BaseException:
        verifier.close()
        raise
    with _lock:
        _idle.append((params, verifier))


def close_pooled_verifiers(*, but: VerifyParams | None = None) -> None:
    """Close all idle verifiers, or the ones with params other than ``but``."""
    with _lock:
        closing = [verifier for known, verifier in _idle if known != but]
        _idle[:] = [entry for entry in _idle if entry[0] == but]
    for verifier in closing:
        verifier.close()


atexit.register(close_pooled_verifiers)
# Their sockets belong to the parent: parent and child would read each other's replies.
os.register_at_fork(after_in_child=_idle.clear)
