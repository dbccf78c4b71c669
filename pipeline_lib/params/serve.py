"""What draws the paths, and what that may cost."""

from typing import Annotated

from pydantic import Field, model_validator

from pipeline_lib.params.sections import Count, Positive, Section


class ServeParams(Section):
    """The rollout engine that draws paths, what it may cost, and where it answers."""

    engine: str = "embedded"
    """A name in `serving.engines.table`, which `params_file` checks."""
    url: str | None = None
    """Address of a running OpenAI-compatible server, version included (``http://host:8000/v1``)."""
    model: str | None = None
    """The model's name at ``url``; null takes the only one that is served there."""
    tokenizer: str | None = None
    """Hugging Face folder or id with the tokenizer of the model at ``url``, which then renders the
    prompts here; null leaves that to the server, by its chat route."""
    api_key_env: str = "OPENAI_API_KEY"
    """Name of the variable that holds the key. The key itself stands in no file of ours."""
    port: Annotated[int, Field(ge=1, le=65535)] = 8300
    """The first port that is tried on 127.0.0.1; one in use gives the next free one."""
    environment: str = ".venv-serve"
    """Folder of the virtual environment in which the engine is installed."""
    options: tuple[str, ...] = ()
    """Further options of the engine's own command line."""
    concurrency: Count = 64
    """Requests in flight at once; each asks for all paths of a problem where the engine can."""
    request_timeout_s: Positive = 600.0
    start_timeout_s: Positive = 300.0
    """From the start of an engine, or from its death, until it must answer."""
    hang_timeout_s: Positive = 30.0
    """An engine that answers nothing for so long is stopped and started again."""
    price_per_million_prompt_tokens: Annotated[float, Field(ge=0)] = 0.0
    price_per_million_completion_tokens: Annotated[float, Field(ge=0)] = 0.0
    """In any currency; ``budget_money`` and the report's cost are in the same."""
    budget_tokens: Count | None = None
    """Prompt and completion tokens after which the run stops; null sets no limit."""
    budget_money: Positive | None = None

    @model_validator(mode="after")
    def _prices(self) -> "ServeParams":
        priced = self.price_per_million_prompt_tokens or self.price_per_million_completion_tokens
        if self.budget_money is not None and not priced:
            raise ValueError(
                f"budget_money={self.budget_money} with both prices 0; set the prices, or budget_tokens"
            )
        return self
