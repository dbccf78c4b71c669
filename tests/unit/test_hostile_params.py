"""Any text is valid params or one line of bad input."""

import contextlib
import os
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.errors import BadInputError
from pipeline_lib.params_file import load_params

HOSTILE = {
    "lists": "[" * 100_000,
    "closed lists": "[" * 5_000 + "]" * 5_000,
    "objects": "{a: " * 50_000,
    "blocks": "".join(" " * depth + "a:\n" for depth in range(2_000)),
    "sequences": "- " * 50_000 + "a",
    "contains itself": "a: &a [*a]",
    "contains itself in a mapping": "a: &a {b: *a}",
    "no day": "seed: 2020-99-99",
    "no truth value": "seed: !!bool 7",
    "no integer": "seed: !!int ''",
    "no binary": "seed: !!binary '*'",
    "ten thousand digits": "seed: " + "9" * 10_000,
    "ten thousand hex digits": "seed: 0x" + "f" * 10_000,
    "hours without end": "seed: " + ":".join(["59"] * 5_000),
    "a list for a key": "? [1, 2]\n: 3",
    "two lists for keys": "{[1]: 1, [1]: 2}",
    "keys of two kinds": "{1: 1, a: 1, 1: 2, a: 2}",
    "a date for a key": "2020-01-01: 1",
    "bytes for a key": "!!binary YQ==: 1",
    "python": "seed: !!python/object/apply:os.getcwd []",
    "half a surrogate pair": 'seed: "\\ud800"',
    "an escape": "seed: \x1b[2J",
    "an escaped escape": 'prepare: {dataset: "\\e[2J\\a"}',
    "a null byte": "seed: \x00",
    "not a number": "seed: .nan",
    "infinity": "seed: .inf",
    "an overflow": "train: {lr: 1e999}",
    "a merge of a number": "<<: 3",
    "an alias of nothing": "seed: *a",
    "two documents": "seed: 1\n---\nseed: 2",
    "a directive": "%YAML 9.9\n---\nseed: 1",
    "a tab": "a:\n\tb: 1",
}


def _refused(**given: object) -> str:
    with pytest.raises(BadInputError) as caught:
        load_params(**given)
    return str(caught.value)


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_one_short_line(what, tmp_path):
    """The file is named, its content is not quoted at length."""
    path = tmp_path / "params.yaml"
    path.write_text(HOSTILE[what], encoding="utf-8")
    said = _refused(path=path)
    assert str(path) in said
    assert len(said) < 1000
    assert "\n" not in said


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_override_is_one_short_line(what):
    """The same after --set KEY=."""
    said = _refused(overrides=[f"train.lr={HOSTILE[what]}"])
    assert "--set train.lr=" in said
    assert len(said) < 1000


@pytest.mark.parametrize(
    "override",
    [
        "",
        "=1",
        "train.lr",
        ".=1",
        "train..lr=1",
        "a." * 50_000 + "a=1",
        "x" * 100_000,
        "\ud800=1",
        "train.lr=\ud800",
        "\x1b[2J=1",
        "train=",
        "train=3",
        "train.lr={}",
        "train.lr=[1]",
        "__class__=1",
    ],
    ids=range(15),
)
def test_no_key_is_a_traceback(override):
    """Keys that are empty, deep, long, or not encodable."""
    assert len(_refused(overrides=[override])) < 1000


def test_what_is_no_params_file_is_named(tmp_path):
    """Folders, random bytes, invalid names."""
    (tmp_path / "noise.yaml").write_bytes(os.urandom(1000))
    for path in (tmp_path, tmp_path / "noise.yaml", "a\0b", "x" * 5000, tmp_path / "none.yaml"):
        _refused(path=pathlib.Path(path))


def test_aliases_are_still_values(tmp_path):
    """An anchor that is used twice is accepted."""
    path = tmp_path / "params.yaml"
    path.write_text("seed: &a 7\nrounds: &b 1\nevaluate: {ks: [*b, 2]}\n", encoding="utf-8")
    params = load_params(path)
    assert (params.seed, params.rounds, params.evaluate.ks) == (7, 1, (1, 2))


@given(
    st.text(st.characters(codec=None, categories=None), max_size=40)
    | st.text("[]{}&*!|>'\"%@`-:, \n\t#?.0123456789eExabnN", max_size=40)
)
def test_any_text_is_params_or_bad_input(text):
    """After --set, as a value and as the whole assignment."""
    for override in (text, f"train.lr={text}"):
        with contextlib.suppress(BadInputError):
            load_params(overrides=[override])
