"""The base policy of the loop: a small Llama made from scratch, or an existing model.

From scratch: random weights, a byte-level tokenizer trained on the solver's solutions, and SFT on them.
SFT stops early on purpose, to leave room for the loop to improve. An existing model is copied, or first
taught the answer format by SFT on worked solutions.
"""

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from pipeline_lib.determinism import deterministic, trainer_seed
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.problems.trained import Asked
from pipeline_lib.store.checkpoints import work_folder
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.train.offline import sft
from pipeline_lib.train.phases import Phase, Progress, Row, Schedule, TrainContext
from pipeline_lib.train.sequence import run_phases
from pipeline_lib.train.token_budget import Tokens
from pipeline_lib.train.tracking.trackers import Trackers
from pipeline_lib.train.trainer_settings import silence_libraries
from pipeline_lib.train.weights import policies
from pipeline_lib.train.weights.models import load_model, save_model

_PAD = "<pad>"
_EOS = "<eos>"
_UNKNOWN = "<unk>"
_MAX_VOCABULARY = 1024
_CONTEXT_TOKENS = 512

Pieces = Literal["numbers", "digits"]
"""Texts between which no token reaches: whole numbers and other characters, or all characters."""
_PIECES: Mapping[Pieces, str] = {"numbers": r"\d+|\D", "digits": r"\d|\D"}


def make_base_policy(  # noqa: PLR0913 - what a training depends on
    rows: Sequence[Row],
    output: pathlib.Path,
    *,
    params: BootstrapParams,
    seed: int,
    key: str,
    problems: Iterable[Asked] = (),
    pieces: Pieces = "numbers",
    progress: Progress | None = None,
    trackers: Trackers | None = None,
) -> Manifest:
    """Make the base policy from ``rows`` {prompt, completion} of worked solutions, or from ``params.model``.

    ``problems`` belong to the solutions, ``pieces`` to the tokenizer of a model from scratch.

    Raises:
        BadInputError: the named model cannot be loaded, or there are no rows to train on.
    """
    if params.model is not None and not params.format_steps:
        return _copy_model(params.model, output, key=key)
    if not rows:
        remedy = (
            "bootstrap.model to a Hugging Face folder or hub id"
            if params.model is None
            else "bootstrap.format_steps=0"
        )
        raise BadInputError(
            f"bootstrap: no problem has a worked solution to train on; set {remedy}, or "
            "prepare.bootstrap_problems above 0"
        )
    context = TrainContext(
        work=work_folder(output, key),
        key=key,
        seed=seed,
        threads=params.threads,
        progress=progress,
        trackers=trackers,
        problems=problems,
    )
    if params.model is not None:
        phase = _make_phase("format", rows, params, steps=params.format_steps)
        return run_phases([phase], params.model, output, context=context)
    blank = context.work / "blank"
    weights_seed = trainer_seed(seed, "bootstrap", "weights")
    with silence_libraries(), deterministic(threads=params.threads, seed=weights_seed):
        save_blank_policy(blank, rows, params, pieces=pieces)
    phase = _make_phase("bootstrap", rows, params, steps=params.steps)
    return run_phases([phase], str(blank), output, context=context)


def _copy_model(source: str, output: pathlib.Path, *, key: str) -> Manifest:
    """Copy an existing model into the workspace in its own precision, so that later stages read a folder."""
    with silence_libraries():
        policies.load_training_tokenizer(source)
        model = load_model(source, dtype="auto")
    return policies.save_policy(model, output, source=source, log=[], key=key, tokens=Tokens())


def _make_phase(name: str, rows: Sequence[Row], params: BootstrapParams, *, steps: int) -> Phase:
    return Phase(
        name=name,
        schedule=Schedule(
            steps=steps,
            lr=params.lr,
            batch_size=params.batch_size,
            shape="cosine",
            warmup_fraction=params.warmup_fraction,
            checkpoint_every=params.checkpoint_every,
        ),
        make_trainer=sft.trainer_factory(rows, lora=policies.FULL),
        row_tokens=sft.row_tokens(rows),
    )


def save_blank_policy(
    folder: pathlib.Path,
    rows: Sequence[Row],
    params: BootstrapParams,
    *,
    pieces: Pieces = "numbers",
) -> None:
    """Save a Llama with random weights from torch's global generator, and a tokenizer made from ``rows``."""
    tokenizer = make_tokenizer([row["prompt"] + row["completion"] for row in rows], pieces=pieces)
    save_blank_llama(
        folder,
        tokenizer,
        hidden_size=params.hidden_size,
        intermediate_size=3 * params.hidden_size,
        num_hidden_layers=params.num_layers,
        num_attention_heads=params.num_heads,
        max_position_embeddings=_CONTEXT_TOKENS,
        initializer_range=params.initializer_range,
    )


def save_blank_llama(
    folder: pathlib.Path, tokenizer: PreTrainedTokenizerFast, **sizes: Any
) -> None:
    """Save a Llama with random weights from torch's global generator, with ``tokenizer``; ``sizes`` as of LlamaConfig.

    Embeddings are tied unless they say otherwise.
    """
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        **{"tie_word_embeddings": True, **sizes},
    )
    save_model(LlamaForCausalLM(config), folder)  # type: ignore[no-untyped-call]
    tokenizer.save_pretrained(folder)


def make_word_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A tokenizer with a token for each word of ``texts``, the words between spaces, in the order of the alphabet.

    Numbered marks of references, as ``#12``, are one token.
    """
    splits = normalizers.Replace(Regex(r"#\d+"), "#")
    words = {word for text in texts for word in splits.normalize_str(text).split()}
    ids = {word: place for place, word in enumerate([_PAD, _EOS, _UNKNOWN, *sorted(words)])}
    inner = Tokenizer(models.WordLevel(ids, unk_token=_UNKNOWN))
    inner.normalizer = splits
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inner, pad_token=_PAD, eos_token=_EOS, unk_token=_UNKNOWN
    )


def make_tokenizer(texts: Sequence[str], *, pieces: Pieces = "numbers") -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer with a token for each number of ``texts``, up to 1024 tokens; or for digits.

    With whole numbers a small model learns the sums of Countdown in half the steps that digits take. It
    encodes every text, and adds no special tokens.
    """
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES[pieces]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = decoders.ByteLevel()
    inner.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=_MAX_VOCABULARY,
            special_tokens=[_PAD, _EOS],
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        ),
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inner, pad_token=_PAD, eos_token=_EOS
    )
