"""Problems that a model was trained on: digests in its folder, which every evaluation compares with its own.

The record goes on to each model that is trained on, or made from, this one. It is no part of the manifest or of
the model's identity, since the same weights are the same model; it has a digest of its own. PRR keeps no record:
a puzzle is of one split of its data set, whose builder divides the puzzles.
"""

import hashlib
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pipeline_lib.errors import CorruptArtifactError
from pipeline_lib.problems.overlap import normalized_question
from pipeline_lib.store.files import digest_json, read_json, write_json

RECORD_NAME = "trained_problems.json"
_CHARACTERS = 12
"""Of a digest: 48 bits, so that 1,000 of other problems meet a million by chance in 1 of 280,000 cases."""


class Asked(Protocol):
    """A problem by its id and question."""

    @property
    def id(self) -> str:
        """Of the data set."""

    @property
    def question(self) -> str:
        """As asked."""


def write_record(folder: pathlib.Path, problems: Iterable[Asked], *, start: str) -> None:
    """Write the record of a model that was made from ``start``, a folder or hub id, and trained on ``problems``.

    There is none if neither was trained on a known problem.
    CorruptArtifactError: the record of ``start`` is damaged.
    """
    digests = sorted(_read(start).union(*map(_digests, problems)))
    if digests:
        write_json(folder / RECORD_NAME, {"digests": digests, "sha256": digest_json(digests)})


def trained_on(models: Mapping[str, str], problems: Sequence[Asked]) -> list[str]:
    """A sentence for each of ``models``, folders or hub ids by name, that was trained on some of ``problems``.

    A problem was trained on if its id or its normalized question was.
    CorruptArtifactError: a record is damaged.
    """
    found = []
    for name, model in models.items():
        ids = seen_in_training(model, problems)
        seen = [one.id for one in problems if one.id in ids]
        if seen:
            found.append(
                f"NOT HELD OUT: {len(seen)} of {len(problems)} evaluated problems were in a training of {name} "
                f"(first: {seen[0]}); its scores do not show what it does on other problems."
            )
    return found


def seen_in_training(model: str, problems: Sequence[Asked]) -> frozenset[str]:
    """Ids of the problems that ``model``, a folder or hub id, was trained on; CorruptArtifactError: damaged record."""
    known = _read(model)
    return frozenset(one.id for one in problems if known & _digests(one)) if known else frozenset()


def _digests(problem: Asked) -> set[str]:
    texts = (problem.id, normalized_question(problem.question))
    return {
        hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_CHARACTERS]
        for text in texts
        if text
    }


def _read(model: str) -> set[str]:
    path = pathlib.Path(model) / RECORD_NAME
    if not path.is_file():
        return set()
    record = read_json(path)
    if not isinstance(record, dict) or record.get("sha256") != digest_json(record.get("digests")):
        raise CorruptArtifactError(f"{path}: differs from its digest; train the model again")
    return set(record["digests"])
