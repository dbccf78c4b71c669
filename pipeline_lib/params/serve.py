"""Params of the rollout engine."""

import re
from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field
from typing_extensions import override

from pipeline_lib.params.sections import Count, Positive, Section, Whole

_SECRET_OPTIONS = {"--api-key", "--hf-token"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def address_faults(url: str | None, api_key_env: str) -> Iterator[str]:
    """Secrets in the address of a server, or in place of the name of a variable."""
    # Params are recorded by Prefect and in the report, so the messages do not show the values.
    if "@" in urlsplit(url or "").netloc:
        yield "url holds a user or password; put the key into the api_key_env variable"
    if not _VARIABLE.fullmatch(api_key_env):
        yield "api_key_env is no name of a variable; the key itself does not belong here"


class ServeParams(Section):
    """The rollout engine: which one, its address, timeouts, prices and budget."""

    engine: str = "embedded"
    """A name in `engines.known.table`, which `params_file` checks."""
    url: str | None = None
    """Address of a running OpenAI-compatible server, with the version (``http://host:8000/v1``)."""
    model: str | None = None
    """The model's name at ``url``; null: the only one served there."""
    tokenizer: str | None = None
    """Hugging Face folder or id with the tokenizer of the model at ``url``, to render prompts; null:
    the server renders them, by its chat route."""
    send_text: bool = False
    """Send prompts that ``tokenizer`` renders as text, not as token ids."""
    api_key_env: str = "OPENAI_API_KEY"
    """Environment variable with the API key of the server at ``url``."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8300
    """First port to try on 127.0.0.1; the next free one is taken."""
    environment: str | None = None
    """Folder of the engine's virtual environment, relative to the repository; null: `make serve-env` makes it."""
    gpus: tuple[Whole, ...] | None = None
    """Of the engine's server, by their numbers among those that the command sees; null: all of them."""
    options: tuple[str, ...] = ()
    """Further options of the engine's command line."""
    concurrency: Count = 64
    """Requests in flight; one covers all paths of a problem where the engine supports it."""
    request_timeout_s: Positive = 600.0
    start_timeout_s: Positive = 300.0
    """Time from the start or restart of an engine until it must be ready."""
    hang_timeout_s: Positive | None = None
    """An engine without progress for this long is restarted; null: 30, or 120 for one that compiles kernels at their first
    use, as vLLM and SGLang do on a GPU."""
    price_per_million_prompt_tokens: Annotated[float, Field(ge=0)] = 0.0
    price_per_million_completion_tokens: Annotated[float, Field(ge=0)] = 0.0
    """Prices in any currency; ``budget_money`` and the reported cost are in the same one."""
    budget_tokens: Count | None = None
    """Prompt and completion tokens after which the run stops; null: no limit."""
    budget_money: Positive | None = None

    @override
    def faults(self) -> Iterator[str]:
        priced = self.price_per_million_prompt_tokens or self.price_per_million_completion_tokens
        if self.budget_money is not None and not priced:
            yield (
                f"budget_money={self.budget_money} with both prices 0; set the prices, or budget_tokens"
            )
        yield from address_faults(self.url, self.api_key_env)
        for option in self.options:
            name = option.partition("=")[0].replace("_", "-")
            if name in _SECRET_OPTIONS:
                yield f"options: {name} is a secret; set its variable (HF_TOKEN) instead"
