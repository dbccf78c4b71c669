"""Checks that a trained model matches a data folder: equal sizes and puzzle identifiers.

Other sizes fail at run time anyway; other identifiers would not, and would silently assign the
puzzle vectors to other puzzles.
"""

import pathlib
from dataclasses import asdict

from pipeline_lib.errors import BadInputError
from pipeline_lib.systems.prr.data.dataset_files import IDENTIFIERS_NAME, PuzzleSet
from pipeline_lib.systems.prr.model.protocol import Sizes
from pipeline_lib.systems.prr.model.saved_model import read_config


def model_sizes(data: PuzzleSet) -> Sizes:
    """Sizes of a model for these data."""
    metadata = data.metadata
    return Sizes(
        vocab_size=metadata.vocab_size,
        seq_len=metadata.seq_len,
        num_puzzle_ids=metadata.num_puzzle_identifiers,
    )


def check_compatible(model: pathlib.Path, data: PuzzleSet, *, folder: pathlib.Path) -> None:
    """Check that the saved ``model`` was trained for ``data``, read from ``folder``.

    Raises:
        BadInputError: there is no model, or it was trained for other data.
    """
    config = read_config(model)
    known, asked = asdict(config.sizes), asdict(model_sizes(data))
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
