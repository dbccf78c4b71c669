"""A made task as a data folder of TRM's format, with all right answers of its test examples beside it."""

import pathlib

import numpy as np
import numpy.typing as npt

from pipeline_lib.errors import BadInputError
from pipeline_lib.latent.data.built_folder import Counts, build_folder
from pipeline_lib.latent.data.dataset_files import PuzzleSet
from pipeline_lib.latent.data.set_writer import write_no_identifiers, write_set
from pipeline_lib.latent.data.synthetic_tasks import make_task
from pipeline_lib.params.latent import LatentDataParams
from pipeline_lib.storage.manifests import Manifest

ANSWERS_NAME = "answers.npy"
"""uint8 [examples, answers, tokens] of the test split; programs that do not know it do not see it."""


def build_made(params: LatentDataParams, output: pathlib.Path, *, seed: int) -> Manifest:
    """Make the task of ``params`` at ``output``, unless it is there.

    Raises:
        BadInputError: the task is a folder, has too few examples, or ``output`` holds other files.
    """
    task = params.task
    if task == "folder":
        raise BadInputError("latent.data.task=folder: there is nothing to make; name a made task")

    def write(folder: pathlib.Path) -> Counts:
        made = make_task(
            task,
            train=params.train_puzzles,
            test=params.test_examples,
            versions=params.versions,
            seed=seed,
        )
        write_set(folder, "train", made.train)
        write_set(folder, "test", made.test)
        write_no_identifiers(folder)
        np.save(folder / "test" / ANSWERS_NAME, made.answers_NAL)
        return {"train": len(made.train.inputs_NL), "test": len(made.test.inputs_NL)}

    return build_folder(
        output,
        write,
        module=__name__,
        options={**params.model_dump(mode="json"), "seed": seed},
        inputs={},
    )


def read_answers(folder: pathlib.Path, data: PuzzleSet) -> npt.NDArray[np.uint8] | None:
    """All right answers [N, A, L] of ``data``, the test split of ``folder``, where they are known.

    Raises:
        BadInputError: the file is no such array.
    """
    path = folder / "test" / ANSWERS_NAME
    if not path.is_file():
        return None
    try:
        answers_NAL: npt.NDArray[np.uint8] = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        reason = " ".join(str(error).split())
        raise BadInputError(
            f"{path}: not a numpy array ({reason}); build the data again"
        ) from error
    shape, (examples, length) = answers_NAL.shape, data.labels_NL.shape
    if shape != (examples, *shape[1:2], length) or answers_NAL.dtype != np.uint8 or not all(shape):
        raise BadInputError(
            f"{path}: {answers_NAL.dtype} of shape {shape}, expected uint8 of shape ({examples}, "
            f"answers, {length}); build the data again"
        )
    return answers_NAL
