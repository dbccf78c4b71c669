"""The command line, requests and responses of SGLang 0.5.23, as names and types read from its wheel.

``sglang.json`` records them. `read_wheel` derives them again from a wheel, or from a folder with the package, by its
syntax trees: an import would need SGLang's dependencies.
"""

import argparse
import ast
import builtins
import functools
import json
import pathlib
import typing
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

RECORD = pathlib.Path(__file__).with_name("sglang.json")
PROTOCOL = "sglang/srt/entrypoints/openai/protocol.py"
COMMANDS = "sglang/srt/managers/io_struct.py"
OPTIONS = "sglang/srt/arg_groups/fields/"
ROUTES = "sglang/srt/entrypoints/http_server.py"
VARIABLES = "sglang/srt/environ.py"
CLASSES = {
    PROTOCOL: [
        *("CompletionRequest", "ChatCompletionRequest", "PDRoutingFields", "StreamOptions"),
        *("ChatCompletionMessageGenericParam", "ChatCompletionMessageUserParam"),
        *("ModelCard", "ModelList", "ErrorResponse", "LogProbs", "TopLogprob", "ChoiceLogprobs"),
        *("ChatCompletionTokenLogprob", "PromptTokensDetails", "CompletionTokensDetails"),
        *("UsageInfo", "CompletionResponseChoice", "CompletionResponse", "ChatMessage"),
        *("ChatCompletionResponseChoice", "ChatCompletionResponse", "DeltaMessage"),
        *("CompletionResponseStreamChoice", "CompletionStreamResponse"),
        *("ChatCompletionResponseStreamChoice", "ChatCompletionStreamResponse"),
    ],
    COMMANDS: ["LoadLoRAAdapterReqInput", "UnloadLoRAAdapterReqInput", "LoRAUpdateOutput"],
}
ROUTES_USED = [
    *("/v1/models", "/v1/completions", "/v1/chat/completions", "/health_generate"),
    *("/load_lora_adapter", "/unload_lora_adapter"),
]
VARIABLES_USED = ["SGLANG_RETURN_ORIGINAL_LOGPROB"]
Read = Callable[[str], str]


def read_wheel(source: pathlib.Path) -> dict[str, Any]:
    """The record of a wheel, or of a folder with the package ``sglang`` and its ``dist-info``."""
    if source.is_dir():
        names = [path.relative_to(source).as_posix() for path in source.glob(f"{OPTIONS}*.py")]
        [metadata] = source.glob("sglang-*.dist-info/METADATA")
        return _record(lambda name: (source / name).read_text("utf-8"), names, metadata.read_text())
    with zipfile.ZipFile(source) as wheel:
        names = [name for name in wheel.namelist() if name.startswith(OPTIONS)]
        [metadata] = [name for name in wheel.namelist() if name.endswith("dist-info/METADATA")]
        return _record(lambda name: wheel.read(name).decode(), names, wheel.read(metadata).decode())


def as_text(found: Mapping[str, Any]) -> str:
    """The content of ``sglang.json``: an option or a class on a line."""
    parts = []
    for key, value in found.items():
        if isinstance(value, dict):
            lines = [f"  {json.dumps(name)}: {json.dumps(facts)}" for name, facts in value.items()]
            parts.append(f"{json.dumps(key)}: {{\n" + ",\n".join(lines) + "\n }")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def _record(read: Read, option_files: list[str], metadata: str) -> dict[str, Any]:
    classes = {}
    for file, wanted in CLASSES.items():
        body = ast.parse(read(file)).body
        found = {one.name: one for one in body if isinstance(one, ast.ClassDef)}
        for name in wanted:
            fields = dict(_fields(found[name]))
            bases = [ast.unparse(base) for base in found[name].bases]
            classes[name] = {
                "bases": [base for base in bases if base in wanted],
                "required": [field for field, (_, given) in fields.items() if not given],
                "fields": {field: kind for field, (kind, _) in fields.items()},
            }
    options: dict[str, Any] = {}
    for file in sorted(option_files):
        for node in ast.parse(read(file)).body:
            if isinstance(node, ast.ClassDef):
                options |= dict(_options(node))
    routes = {
        node.value
        for node in ast.walk(ast.parse(read(ROUTES)))
        if isinstance(node, ast.Constant) and node.value in ROUTES_USED
    }
    variables = {
        ast.unparse(node.targets[0])
        for node in ast.walk(ast.parse(read(VARIABLES)))
        if isinstance(node, ast.Assign)
    }
    return {
        "version": next(
            line.removeprefix("Version: ")
            for line in metadata.splitlines()
            if line.startswith("Version: ")
        ),
        "options": dict(sorted(options.items())),
        "classes": classes,
        "routes": sorted(routes),
        "variables": sorted(variables & set(VARIABLES_USED)),
    }


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, tuple[str, bool]]]:
    """Each public field, with its type and whether it has a default."""
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and not ast.unparse(one.target).startswith("_"):
            yield ast.unparse(one.target), (ast.unparse(one.annotation), one.value is not None)


def _options(node: ast.ClassDef) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each option of a class, by the rules of ``arg_groups/arg_utils.py``: its type and literal choices."""
    for one in node.body:
        annotation = one.annotation if isinstance(one, ast.AnnAssign) else None
        if not (
            isinstance(annotation, ast.Subscript)
            and ast.unparse(annotation.value) == "A"
            and isinstance(annotation.slice, ast.Tuple)
        ):
            continue
        kind, *rest = annotation.slice.elts
        given = {
            keyword.arg: keyword.value
            for part in rest
            if isinstance(part, ast.Call)
            for keyword in part.keywords
        }
        if "no_cli" in given:
            continue
        choices = given.get("choices")
        field = ast.unparse(one.target)
        plain = "--" + field.replace("_", "-")
        facts: dict[str, Any] = {"type": ast.unparse(kind)}
        if isinstance(choices, ast.List):
            facts["choices"] = ast.literal_eval(choices)
        if "nargs" in given:
            facts["several"] = True
        names = [ast.literal_eval(given["cli_name"]) if "cli_name" in given else plain]
        names += ast.literal_eval(given["aliases"]) if "aliases" in given else []
        yield from ((name, facts) for name in names)


@functools.cache
def record() -> dict[str, Any]:
    """The recorded contract."""
    found: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
    return found


class _Names(dict[str, Any]):
    """Names in the recorded types; those of other classes are of any type."""

    def __missing__(self, name: str) -> Any:
        if name in record()["classes"]:
            return model_of(name)
        if name == "ChatCompletionMessageParam":
            kinds = ("ChatCompletionMessageGenericParam", "ChatCompletionMessageUserParam")
            return model_of(kinds[0]) | model_of(kinds[1])
        return getattr(typing, name, None) or getattr(builtins, name, Any)


@functools.cache
def model_of(name: str) -> type[BaseModel]:
    """The class ``name`` with the recorded fields; it refuses all others, and values of other types."""
    fields: dict[str, Any] = {}
    for owner in (*record()["classes"][name]["bases"], name):
        facts = record()["classes"][owner]
        for field, kind in facts["fields"].items():
            default = ... if field in facts["required"] else None
            fields[field] = (eval(kind, {}, _Names()), default)
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


def checked(name: str, content: Any) -> dict[str, Any]:
    """``content`` as it is. ValidationError: it is not one of the class ``name``."""
    model_of(name).model_validate(content)
    return dict(content)


def parser() -> argparse.ArgumentParser:
    """A parser with SGLang's options; it refuses all others, abbreviations too."""
    found = argparse.ArgumentParser(prog="sglang.launch_server", allow_abbrev=False)
    for name, facts in record()["options"].items():
        kind = facts["type"].removeprefix("Optional[").removesuffix("]")
        if kind == "bool":
            found.add_argument(name, action="store_true")
            continue
        several = "several" in facts or kind.startswith("List")
        found.add_argument(
            name,
            type={"int": int, "float": float}.get(kind, str),
            choices=facts.get("choices"),
            nargs="*" if several else None,
        )
    return found
