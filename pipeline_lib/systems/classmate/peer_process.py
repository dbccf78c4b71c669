"""The program of a peer's process: ``python -m pipeline_lib.systems.classmate.peer_process PEER LOG_FOLDER``.

PEER is JSON of `PeerParams`. It listens in its temporary folder once the engine is open, and answers calls
until the connection ends. A failure ends it; the reason is the last line of its output.
"""

import pathlib
import sys
import tempfile
from multiprocessing.connection import Listener

from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.systems.classmate.body import opened_body

SOCKET = "peer.sock"
"""Name of its socket within its temporary folder."""
REASON = "error: "
"""Beginning of the line with the reason of its end, if the library has one."""


def main(peer: PeerParams, log_folder: pathlib.Path) -> int:
    """Serve calls, each a pair of questions and decoding; returns the exit code."""
    try:
        with opened_body(peer, log_folder=log_folder) as body:
            address = str(pathlib.Path(tempfile.gettempdir()) / SOCKET)
            with Listener(address, family="AF_UNIX") as listener, listener.accept() as connection:
                while True:
                    connection.send(body.answer(*connection.recv()))
    except EOFError:
        return 0
    except ReasonloopError as error:
        sys.stderr.write(f"{REASON}{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(PeerParams.model_validate_json(sys.argv[1]), pathlib.Path(sys.argv[2])))
