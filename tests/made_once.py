"""Folders and services that one process of a test session makes, and all others use."""

import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from filelock import FileLock


def made_once(
    factory: pytest.TempPathFactory, name: str, make: Callable[[pathlib.Path], object]
) -> pathlib.Path:
    """The folder ``name`` of this test session, made by the first process that asks for it.

    Its files are shared: copy the folder to change it.
    """
    folder = _folder(factory, name)
    complete = folder.with_suffix(".complete")
    with FileLock(folder.with_suffix(".lock")):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            complete.touch()
    return folder


@contextmanager
def used_together(
    factory: pytest.TempPathFactory,
    name: str,
    start: Callable[[pathlib.Path], object],
    stop: Callable[[pathlib.Path], object],
) -> Iterator[pathlib.Path]:
    """The folder of a service that several processes use.

    Each calls ``start``, one at a time, which finds what another has started; the last one calls ``stop``.
    """
    folder = _folder(factory, name)
    users = folder / "users"
    users.mkdir(parents=True, exist_ok=True)
    mine = users / str(os.getpid())
    lock = FileLock(folder.with_suffix(".lock"))
    with lock:
        start(folder)
        mine.touch()
    yield folder
    with lock:
        mine.unlink()
        if not [*users.iterdir()]:
            stop(folder)


def _folder(factory: pytest.TempPathFactory, name: str) -> pathlib.Path:
    common = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        common = common.parent
    return common / f"shared-{name}"
