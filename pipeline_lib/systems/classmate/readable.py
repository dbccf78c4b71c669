"""Check that a peer's tokenizer has the characters of the problems."""

from collections.abc import Sequence

from pipeline_lib.engines.pretrained import load_chat_format, load_tokenizer
from pipeline_lib.engines.tokens import encode_completion
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import render

_SHOWN = 10


def check_readable(peers: Sequence[PeerParams], problems: Sequence[Problem]) -> None:
    """Check that each peer can read the prompts of the problems: else it would be scored as wrong on all.

    Raises:
        BadInputError: the tokenizer of a peer replaces characters by its unknown token.
    """
    for peer in peers:
        source = peer.serve.tokenizer or peer.model
        tokenizer = load_tokenizer(source)
        unknown = tokenizer.unk_token_id
        if unknown is None:
            continue
        chat_format = load_chat_format(source)
        characters = {sign for problem in problems for sign in render(problem, chat_format)}
        lacking = [
            sign for sign in sorted(characters) if unknown in encode_completion(tokenizer, sign)
        ]
        if lacking:
            more = f" and {len(lacking) - _SHOWN} others" if len(lacking) > _SHOWN else ""
            raise BadInputError(
                f"classmate {peer.name}: its tokenizer lacks {' '.join(map(repr, lacking[:_SHOWN]))}{more} of the "
                "problems' prompts; give a model that can read them"
            )
