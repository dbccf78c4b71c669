"""Models are loaded for training and written in one module, which knows what transformers refuses to save."""

import ast
from collections.abc import Iterator

from benchmarks.lib.repository import REPOSITORY

WRITER = "pipeline_lib/train/weights/models.py"
ADAPTERS = "pipeline_lib/train/weights/adapters.py"


def savers() -> Iterator[tuple[str, str]]:
    """Module and receiver of each call of ``save_pretrained``."""
    for package in ("flows", "tasks", "pipeline_lib"):
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Attribute) and node.attr == "save_pretrained":
                    yield path.relative_to(REPOSITORY).as_posix(), ast.unparse(node.value)


def test_models_are_written_in_one_place():
    """Other receivers of ``save_pretrained`` are PEFT's adapters and tokenizers."""
    others = [(module, what) for module, what in savers() if "tokenizer" not in what.lower()]
    assert others == [(ADAPTERS, "model"), (WRITER, "model")]
