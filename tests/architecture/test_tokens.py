"""One module calls tokenizers: elsewhere a prompt could begin with other tokens than the model was taught with."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

from benchmarks.lib.repository import REPOSITORY

OWN = {"pipeline_lib/engines/tokens.py"}
BATCHES = {"pipeline_lib/systems/apr/sft.py"}
"""A tokenizer of the tokenizers library, made here, in batches on all cores."""
METHODS = {"encode", "decode", "batch_decode", "encode_batch", "batch_encode_plus", "tokenize"}


def tokenizer_calls(tree: ast.AST) -> Iterator[int]:
    """Lines that call a tokenizer, one of its methods from text to ids or back, or a chat template."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr == "apply_chat_template":
            yield node.lineno
        elif isinstance(called, ast.Attribute) and called.attr in METHODS:
            if _is_tokenizer(called.value):
                yield node.lineno
        elif _is_tokenizer(called):
            yield node.lineno


def _is_tokenizer(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name.strip("_") in {"tokenizer", "processing_class"}


@pytest.mark.parametrize("folder", ["pipeline_lib", "flows", "tasks"])
def test_tokenizers_are_called_in_one_module(folder):
    """`serving.tokens` has a function for every use; a new use gets one there."""
    found = {
        f"{path.relative_to(REPOSITORY).as_posix()}:{line}"
        for path in (REPOSITORY / folder).rglob("*.py")
        if path.relative_to(REPOSITORY).as_posix() not in OWN | BATCHES
        for line in tokenizer_calls(ast.parse(path.read_text("utf-8")))
    }
    assert found == set()


@pytest.mark.parametrize(
    "line",
    [
        "tokenizer('a')",
        "self._tokenizer.encode('a', add_special_tokens=False)",
        "policy.tokenizer.decode(ids)",
        "trainer.processing_class(text=texts)",
        "anything.apply_chat_template(turns)",
    ],
)
def test_each_way_to_call_one_is_seen(line):
    """The rule is not empty."""
    assert [*tokenizer_calls(ast.parse(line))] == [1]


def test_the_listed_modules_exist():
    """An exception ends with its reason."""
    for name in OWN | BATCHES:
        assert [*tokenizer_calls(ast.parse(pathlib.Path(REPOSITORY / name).read_text("utf-8")))]
