"""A classmate as a class of which Ray makes an actor; Ray is not imported. The work is the library's."""

import pathlib
from collections.abc import Sequence
from contextlib import ExitStack

from pipeline_lib.classmate.body import PeerBody, opened_body
from pipeline_lib.classmate.peer import Question
from pipeline_lib.errors import ReasonloopError
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.serving.chat_model import Completion, Decoding


class ClassmateActor:
    """The body of a peer, which is opened again when Ray restarts the actor."""

    def __init__(self, peer: PeerParams, log_folder: pathlib.Path) -> None:
        self._stack = ExitStack()
        self._opened: PeerBody | ReasonloopError
        try:
            self._opened = self._stack.enter_context(opened_body(peer, log_folder=log_folder))
        except ReasonloopError as error:
            # Raised here, Ray would give the actor up, and wrap the reason in a traceback.
            self._opened = error

    def ready(self) -> None:
        """Return if the engine is open.

        Raises:
            ReasonloopError: as `opened_body`.
        """
        if isinstance(self._opened, ReasonloopError):
            raise self._opened

    def answer(self, questions: Sequence[Question], decoding: Decoding) -> list[list[Completion]]:
        """As `PeerBody.answer`, after `ready`."""
        assert isinstance(self._opened, PeerBody)
        return self._opened.answer(questions, decoding)

    def close(self) -> None:
        """Stop the engine."""
        self._stack.close()
