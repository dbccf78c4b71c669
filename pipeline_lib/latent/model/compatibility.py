"""Whether a trained model fits a data folder: the same sizes, and the same meaning of each puzzle vector.

Data of another canvas or vocabulary break a model. Data whose identifiers stand for other versions do
not: its puzzle vectors would be those of other puzzles, and the figures wrong without a word.
"""

import pathlib
from dataclasses import asdict

from pipeline_lib.errors import BadInputError
from pipeline_lib.latent.data.dataset_files import IDENTIFIERS_NAME, PuzzleSet
from pipeline_lib.latent.model.protocol import Sizes
from pipeline_lib.latent.model.saved_model import read_config


def sizes_of(data: PuzzleSet) -> Sizes:
    """What the data decide about a model."""
    metadata = data.metadata
    return Sizes(
        vocab_size=metadata.vocab_size,
        seq_len=metadata.seq_len,
        num_puzzle_ids=metadata.num_puzzle_identifiers,
    )


def check_fit(model: pathlib.Path, data: PuzzleSet, *, folder: pathlib.Path) -> None:
    """Make sure that the saved ``model`` can answer ``data``, which stand in ``folder``.

    Raises:
        BadInputError: there is no model, or the data are others than it was trained for.
    """
    config = read_config(model)
    known, asked = asdict(config.sizes), asdict(sizes_of(data))
    for name, size in known.items():
        if size != asked[name]:
            raise BadInputError(
                f"{model}: trained for {name}={size}, but {folder} has {name}={asked[name]}; "
                "use the data that it was trained on"
            )
    if config.identifiers not in {None, data.identifiers}:
        raise BadInputError(
            f"{model}: trained with another {IDENTIFIERS_NAME} than that of {folder}, so that its "
            "puzzle vectors belong to other versions; use the data that it was trained on"
        )
