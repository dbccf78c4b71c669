"""Peers as processes of this machine, for runs without Ray.

The program of a process is ``python -m pipeline_lib.systems.classmate.processes PEER LOG_FOLDER``. PEER is JSON of
`PeerParams`. It listens in its temporary folder once the engine is open, and answers calls until the connection ends. A
failure ends it; the reason is the last line of its output.
"""

import os
import pathlib
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from multiprocessing.connection import Client, Connection, Listener

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.engines.gpus import visible_gpus
from pipeline_lib.engines.known.engine import Launch
from pipeline_lib.engines.known.table import check_installed
from pipeline_lib.engines.launch.process import EngineProcess
from pipeline_lib.errors import BadInputError, ReasonloopError, errors_at, reason_of
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.systems.classmate.peer import PeerFailedError, Question
from pipeline_lib.systems.classmate.peer_engine import check_placed, opened_peer, peer_identity

_MODULE = "pipeline_lib.systems.classmate.processes"
_SOCKET = "peer.sock"
"""Name of its socket within its temporary folder."""
_REASON = "error: "
"""Beginning of the line with the reason of its end, if the library has one."""
_POLL_S = 0.05
_IMPORTS_S = 60.0
"""Of a process that starts; the rest of its start has ``serve.start_timeout_s``."""


class ProcessPeer:
    """Implements Peer on a process, with all that it starts. It is killed and started again when a call fails."""

    def __init__(self, peer: PeerParams, *, log_folder: pathlib.Path) -> None:
        """Start the process; `wait` returns when it takes calls."""
        self.name = peer.name
        self.identity = peer_identity(peer)
        self._peer = peer
        self._log_folder = log_folder
        self._starting = threading.Lock()
        self._is_closed = False
        self._caller = ThreadPoolExecutor(1, thread_name_prefix=f"classmate-{peer.name}")
        self._start()

    def _start(self) -> None:
        launch = Launch(
            command=(
                *(sys.executable, "-m", _MODULE),
                *(self._peer.model_dump_json(), str(self._log_folder)),
            ),
            environment={
                "PYTHONUNBUFFERED": "1",
                # As Ray does for an actor without GPUs.
                **({} if self._peer.num_gpus else {"CUDA_VISIBLE_DEVICES": ""}),
            },
        )
        log = self._log_folder / f"classmate-{self.name}.log"
        self._process = EngineProcess("classmate", launch, log)
        self._started_s = time.monotonic()
        self._connection: Connection | None = None

    def wait(self) -> None:
        """Return once it takes calls.

        Raises:
            BadInputError: the model cannot be served.
            ReasonloopError: the process has ended, or its time to start has.
        """
        connection = self._connected(self._started_s + self._start_timeout_s)
        if connection is None:
            code = self._process.exit_code
            error = BadInputError if code == BadInputError.exit_code else ReasonloopError
            raise error(f"classmate {self.name}: {self._problem()}")

    def answer(
        self, questions: Sequence[Question], decoding: Decoding, *, timeout_s: float
    ) -> list[list[Completion]]:
        """As `Peer`."""
        deadline = time.monotonic() + timeout_s
        reason, has_failed = None, True
        try:
            if (connection := self._connected(deadline)) is None:
                is_late = time.monotonic() > self._started_s + self._start_timeout_s
                reason, has_failed = self._problem(), is_late or self._process.exit_code is not None
            else:
                # In a thread: a stopped process does not read, and a long message would wait for it.
                call = self._caller.submit(_exchange, connection, (questions, decoding))
                return call.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            reason = f"no answer within {timeout_s:g} s"
        except (EOFError, OSError):
            pass  # it has ended, or ends below
        except Exception as error:  # noqa: BLE001 - what it sends cannot be read
            reason = reason_of(error)
        try:
            if reason is None:
                self._process.kill()
                reason = self._problem()
            if has_failed:
                self._start_again()
        except ReasonloopError as error:  # it cannot be ended
            reason = str(error)
        raise PeerFailedError(reason)

    def close(self) -> None:
        """End the process and all that it has started; a call that is waited for fails."""
        with self._starting:
            self._is_closed = True
            self._process.kill()
        self._caller.shutdown()
        if self._connection is not None:
            self._connection.close()

    @property
    def _start_timeout_s(self) -> float:
        return _IMPORTS_S + self._peer.serve.start_timeout_s

    def _connected(self, deadline: float) -> Connection | None:
        """The connection; None if the process has ended or does not take calls by then."""
        while self._connection is None:
            if self._process.exit_code is not None or time.monotonic() > deadline:
                return None
            try:
                address = str(pathlib.Path(self._process.scratch) / _SOCKET)
                self._connection = Client(address, family="AF_UNIX")
            except (FileNotFoundError, ConnectionRefusedError):
                time.sleep(_POLL_S)
        return self._connection

    def _problem(self) -> str:
        if self._process.exit_code is None:
            return f"it is still starting after {time.monotonic() - self._started_s:.0f} s"
        lines = self._process.output().splitlines()
        reasons = [line for line in lines if line.startswith(_REASON)]
        if reasons:
            return reasons[-1].removeprefix(_REASON)
        return f"its process {self._process.exit_summary}"

    def _start_again(self) -> None:
        with self._starting:
            if self._is_closed:
                return
            self._process.kill()
            if self._connection is not None:
                self._connection.close()
            self._start()


def _exchange(connection: Connection, call: object) -> list[list[Completion]]:
    connection.send(call)
    found: list[list[Completion]] = connection.recv()
    return found


def check_machine(peers: Sequence[PeerParams]) -> None:
    """Refuse peers for which this machine lacks GPUs, CPUs or an engine."""
    check_placed(peers, visible_gpus(), os.cpu_count() or 1, place="this machine")
    for peer in peers:
        with errors_at(f"classmate {peer.name}"):
            check_installed(peer.serve)


@contextmanager
def process_peers(
    peers: Sequence[PeerParams], *, log_folder: pathlib.Path
) -> Iterator[list[ProcessPeer]]:
    """The peers as processes, for the block; they start at once. Errors as of `ProcessPeer.wait`."""
    with ExitStack() as stack:
        opened = [
            stack.enter_context(closing(ProcessPeer(peer, log_folder=log_folder))) for peer in peers
        ]
        for peer in opened:
            peer.wait()
        yield opened


def main(peer: PeerParams, log_folder: pathlib.Path) -> int:
    """Serve calls, each a pair of questions and decoding; returns the exit code."""
    try:
        with opened_peer(peer, log_folder=log_folder) as engine:
            address = str(pathlib.Path(tempfile.gettempdir()) / _SOCKET)
            with Listener(address, family="AF_UNIX") as listener, listener.accept() as connection:
                while True:
                    connection.send(engine.answer(*connection.recv()))
    except EOFError:
        return 0
    except ReasonloopError as error:
        sys.stderr.write(f"{_REASON}{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(PeerParams.model_validate_json(sys.argv[1]), pathlib.Path(sys.argv[2])))
