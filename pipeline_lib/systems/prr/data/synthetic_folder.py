"""Synthetic tasks as data folders in TRM's format, plus all correct answers of the test split."""

import pathlib

import numpy as np
import numpy.typing as npt

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.prr import PrrDataParams
from pipeline_lib.store.manifests import Manifest
from pipeline_lib.systems.prr.data.built_folder import Counts, build_folder
from pipeline_lib.systems.prr.data.dataset_files import PuzzleSet
from pipeline_lib.systems.prr.data.set_writer import write_blank_identifiers, write_set
from pipeline_lib.systems.prr.data.synthetic_tasks import make_task

ANSWERS_NAME = "answers.npy"
"""uint8 [examples, answers, tokens] of the test split; an extra file, ignored by other readers."""


def build_synthetic(params: PrrDataParams, output: pathlib.Path, *, seed: int) -> Manifest:
    """Generate the task of ``params`` in ``output``, or reuse it.

    Raises:
        BadInputError: the task is a folder or too small, or ``output`` holds other files.
    """
    task = params.task
    if task == "folder":
        raise BadInputError("prr.data.task=folder: nothing to generate; choose a synthetic task")

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
        write_blank_identifiers(folder)
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
    """All correct answers [N, A, L] to the test split ``data`` of ``folder``; None if unknown.

    Raises:
        BadInputError: the file is damaged or has another shape or dtype.
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
