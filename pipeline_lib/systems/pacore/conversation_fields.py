"""Conversations in JSON lines: turns with a role and a text, the last one the user's."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pipeline_lib.engines.chat_model import Message, Role
from pipeline_lib.engines.server.schemas import Text

StrictText = Annotated[Text, Field(strict=True)]
"""A string that can be encoded; a number is none."""
Texts = Annotated[tuple[StrictText, ...], Field(min_length=1)]


class Turn(BaseModel):
    """One message of a line; further fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    role: Role
    content: StrictText


def _asks(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    if turns[-1].role is not Role.USER:
        raise ValueError("the last message must be the user's")
    return turns


Turns = Annotated[tuple[Turn, ...], Field(min_length=1), AfterValidator(_asks)]


def messages_of(turns: tuple[Turn, ...]) -> list[Message]:
    """The conversation of a line."""
    return [Message(role=turn.role, content=turn.content) for turn in turns]
