"""`reasonloop serve`: one engine for any OpenAI client, until Ctrl-C or SIGTERM."""

import pathlib
import time
from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from flows.cli.options import (
    DEFAULT_PARAMS,
    DEFAULT_RUN,
    PORT,
    EngineLogs,
    EngineOption,
    ParamsOptions,
    read_named,
)
from flows.cli.serving import QUESTION, exit_on_sigterm, reported_engine, show_request
from flows.run.terminal import say
from pipeline_lib.engines.identity import Endpoint, model_identity
from pipeline_lib.engines.known.table import engine_named
from pipeline_lib.engines.launch.adapters import Adapter, read_adapter
from pipeline_lib.errors import BadInputError
from pipeline_lib.store.files import read_json

_POLL_S = 0.5
_PROMPT = "2,3,7=42\n"
_MAX_TOKENS = 32


def serve(
    model: Annotated[
        str,
        Parameter(
            help="A Hugging Face folder or hub id; with --engine url, the name that the server uses."
        ),
    ],
    /,
    *,
    engine: EngineOption = None,
    port: Annotated[
        int | None, Parameter(help="First port to try; the next free one is used.", validator=PORT)
    ] = None,
    lora: Annotated[
        tuple[str, ...],
        Parameter(negative="", help="A LoRA adapter as NAME=FOLDER; repeatable."),
    ] = (),
    workspace: EngineLogs = DEFAULT_RUN.workspace,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Serve a model to any OpenAI client, on this machine only, until Ctrl-C.

    An engine that crashes or hangs is restarted on the same port.

    **Examples:**

        reasonloop serve models/policy
        reasonloop serve models/base --engine vllm --port 8400 --lora policy=adapters/round-1
        reasonloop serve NAME --engine url --set serve.url=http://host:8000/v1
    """
    served = params.load({"serve.engine": engine, "serve.port": port}).serve
    log_folder = workspace.resolve() / "logs"
    adapters = {adapter.name: adapter for adapter in map(_read, lora)}
    if len(adapters) < len(lora):
        raise BadInputError(f"--lora {' '.join(lora)}: a name is given twice; names must differ")
    exit_on_sigterm()
    rank = max((adapter.rank for adapter in adapters.values()), default=None)
    with reported_engine(model, served, log_folder, lora_rank=rank) as (running, report):
        loaded = [running.load_adapter(a.name, a.folder, a.version) for a in adapters.values()]
        _show([running.endpoint, *loaded], chats=_has_chat_template(model))
        if not engine_named(served.engine).is_external:
            say("serving; Ctrl-C stops it")
            while True:
                time.sleep(_POLL_S)
                report()


def _read(text: str) -> Adapter:
    name, folder = read_named(text, "NAME=FOLDER", option="--lora ")
    return read_adapter(name, pathlib.Path(folder), model_identity(folder))


def _has_chat_template(model: str) -> bool:
    """False for a folder without one; a hub id or a name at a URL is assumed to have one."""
    folder = pathlib.Path(model)
    if not folder.is_dir() or (folder / "chat_template.jinja").is_file():
        return True
    settings = folder / "tokenizer_config.json"
    return settings.is_file() and "chat_template" in read_json(settings)


def _show(endpoints: Sequence[Endpoint], *, chats: bool) -> None:
    """Print the address and example requests, for the chat route if the model has a template for it."""
    last = endpoints[-1]
    say(f"base URL: {last.base_url}")
    for endpoint in endpoints:
        say(f"model:    {endpoint.model}")
    messages = [{"role": "user", "content": QUESTION}]
    asked: dict[str, object] = {"messages": messages} if chats else {"prompt": _PROMPT}
    body = {"model": last.model, **asked, "max_tokens": _MAX_TOKENS}
    arguments = ", ".join(f"{name}={value!r}" for name, value in body.items())
    method, text = ("chat.completions", "message.content") if chats else ("completions", "text")
    show_request(last.base_url, method.replace(".", "/"), body)
    say(
        f"""from openai import OpenAI
client = OpenAI(base_url={last.base_url!r}, api_key="none")
answer = client.{method}.create({arguments})
print(answer.choices[0].{text})
""",
    )
