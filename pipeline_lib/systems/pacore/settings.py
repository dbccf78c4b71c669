"""From params and a model to the setting of its questions: compaction, answers, limits of the context."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from pipeline_lib.engines.chat_model import ChatFormat, ChatModel, Completion, Decoding
from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.table import KINDS
from pipeline_lib.params.pacore import Compaction, PacoreParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.pacore.rounds import Setting, make_plan
from pipeline_lib.systems.pacore.solution import VERSION, PromptForm, Question
from pipeline_lib.systems.pacore.worker_pool import WorkerPool
from pipeline_lib.terminal_text import one_line
from pipeline_lib.verify.answer_text import strip_reasoning
from pipeline_lib.verify.dispatch import AnswerBook, Verifier, open_verifier

_SHOWN_CHARACTERS = 60
_TOKENS = 1024
_COMPACT_TOKENS = 192


Elect = Callable[[Sequence[Completion], Callable[[str], int | None], PacoreParams], int]
"""The place of the elected path of a round; the function numbers the answers of its texts."""


@contextmanager
def open_setting(
    model: ChatModel,
    params: PacoreParams,
    verify: VerifyParams,
    *,
    seed: int,
    elect: Elect | None = None,
) -> Iterator[Setting]:
    """As `make_setting`; early stops and votes may compare answers within the block."""
    with open_verifier(verify) as verifier:
        yield make_setting(model, params, verifier, seed=seed, elect=elect)


def make_setting(
    model: ChatModel,
    params: PacoreParams,
    verifier: Verifier,
    *,
    seed: int,
    answers: int = 1,
    elect: Elect | None = None,
) -> Setting:
    """The setting of ``params`` on ``model``, with ``answers`` calls in the last round.

    Raises:
        BadInputError: the model has no chat template, or one that cannot ask for the summaries of ``params``; the
            weights of ``params`` are for other models; or they want a vote, and there is no ``elect``.
    """
    chat_format = require_chat_format(model.chat_format, "the model")
    decoding = _decoding(params, call_tokens(params, chat_format))
    kind = KINDS[params.kind]
    summary = None
    check_compaction(params, is_compact=chat_format.is_compact)
    models = model.models if isinstance(model, WorkerPool) else ()
    if params.votes and elect is None:
        raise BadInputError(
            f"pacore.final={params.final}: solve, batch and serve vote; leave it out here"
        )
    if params.weights and set(models) != params.weights.keys():
        raise BadInputError(
            f"pacore.weights: has {', '.join(params.weights)}, and the models of --with are "
            f"{', '.join(models) or 'none'}; give one weight for each"
        )
    if params.compaction is Compaction.MODEL:
        summary = _decoding(params, params.summary_tokens)

    def open_answers() -> Callable[[str], int | None]:
        return AnswerBook(kind=kind, verifier=verifier).number

    def leaves_room(prompt: str, *, tokens: int) -> bool:
        room = model.room(prompt)
        return room is None or room >= tokens

    return Setting(
        plan=make_plan(params, answers=answers),
        form=PromptForm(
            chat_format=chat_format,
            fits=partial(leaves_room, tokens=decoding.max_new_tokens),
            message_of=message_of(params, verifier),
        ),
        decoding=decoding,
        last_decoding=replace(
            decoding,
            temperature=(
                params.temperature if params.last_temperature is None else params.last_temperature
            ),
        ),
        seed=seed,
        summary=summary,
        summary_fits=partial(leaves_room, tokens=params.summary_tokens),
        early_stop=params.early_stop,
        elect=(
            (lambda drawn: elect(drawn, open_answers(), params)) if params.votes and elect else None
        ),
        open_answers=open_answers,
        models=models,
    )


_INFERENCE = {
    *("widths", "rsa", "final", "weights", "compaction", "kind", "early_stop"),
    *("temperature", "last_temperature", "top_p", "max_new_tokens", "summary_tokens"),
}


def identity_of(engine: ChatModel, params: Params) -> list[object]:
    """JSON values of all that a solution depends on besides its question, for the key of a journal."""
    chat_format = engine.chat_format
    return [
        VERSION,
        engine.identity,
        engine.engine,
        chat_format.digest if chat_format else None,
        params.seed,
        params.pacore.model_dump(mode="json", include=_INFERENCE),
        *([params.verify.code_digest] if params.verify.answer else []),
    ]


def check_lengths(questions: Iterable[Question], setting: Setting) -> None:
    """Raise BadInputError, before the first call, if one of the questions alone does not fit into the context."""
    for question in questions:
        if not setting.form.fits(setting.form.chat_format.render(question.conversation)):
            raise BadInputError(
                f"question {one_line(question.id, most=_SHOWN_CHARACTERS)}: too long for the model's context "
                f"beside pacore.max_new_tokens={setting.decoding.max_new_tokens}; lower that, or leave the "
                "question out"
            )


def require_chat_format(found: ChatFormat | None, name: str) -> ChatFormat:
    """The chat template that was ``found`` for the model ``name``; BadInputError if there is none."""
    if found is None:
        raise BadInputError(
            f"{name} has no chat template, and questions are conversations; give an instruct model, as from "
            "`reasonloop import-model`, or one that `reasonloop pacore base` made"
        )
    return found


def check_compaction(params: PacoreParams, *, is_compact: bool) -> None:
    """Raise BadInputError if ``params`` ask a model of compact prompts, which reads no words, for summaries."""
    if params.compaction is Compaction.MODEL and is_compact:
        raise BadInputError(
            "pacore.compaction=model: the model reads compact prompts, and no request for a summary; give "
            "conclusion or answer"
        )


def call_tokens(params: PacoreParams, chat_format: ChatFormat) -> int:
    """Most tokens that one call draws."""
    if params.max_new_tokens is not None:
        return params.max_new_tokens
    return _COMPACT_TOKENS if chat_format.is_compact else _TOKENS


def _decoding(params: PacoreParams, max_new_tokens: int) -> Decoding:
    return Decoding(
        temperature=params.temperature, top_p=params.top_p, max_new_tokens=max_new_tokens
    )


def message_of(params: PacoreParams, verifier: Verifier) -> Callable[[str], str | None]:
    """The compaction of a text; it reads what the model wrote, never a prompt."""
    if params.compaction is Compaction.ANSWER:
        form = verifier.answer_form(KINDS[params.kind])
        assert form is not None  # by the check of the params
        return form
    return lambda text: strip_reasoning(text).strip() or None
