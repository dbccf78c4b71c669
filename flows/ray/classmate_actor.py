"""A classmate as a class of which Ray makes an actor; Ray is not imported. The work is the library's."""

import pathlib
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pipeline_lib.engines.chat_model import Completion, Decoding
from pipeline_lib.errors import ReasonloopError, reason_of
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.systems.classmate.body import PeerBody, opened_body
from pipeline_lib.systems.classmate.peer import Question


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The end of an actor's start."""

    start: str
    """Unlike that of any other start: an actor that is killed may answer once more."""
    failure: ReasonloopError | None
    """Reason why the engine is not open."""


class ClassmateActor:
    """The body of a peer, which is opened again when Ray restarts the actor."""

    def __init__(self, peer: PeerParams, log_folder: pathlib.Path) -> None:
        self._stack = ExitStack()
        self._body: PeerBody | None = None
        failure = None
        try:
            self._body = self._stack.enter_context(opened_body(peer, log_folder=log_folder))
        except ReasonloopError as error:
            # Raised here, Ray would give the actor up, and wrap the reason in a traceback.
            failure = error
        except Exception as error:  # noqa: BLE001 - as above; of a library, such as a GPU without memory
            failure = ReasonloopError(reason_of(error))
        self._opening = Opening(start=secrets.token_hex(8), failure=failure)

    def opening(self) -> Opening:
        """How its start has ended."""
        return self._opening

    def answer(self, questions: Sequence[Question], decoding: Decoding) -> list[list[Completion]]:
        """As `PeerBody.answer`, after an `opening` without a failure."""
        assert self._body is not None
        return self._body.answer(questions, decoding)

    def close(self) -> None:
        """Stop the engine."""
        self._stack.close()
