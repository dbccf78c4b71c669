"""SGLang's launch, adapters and chat route on the simulated server, which its own wheel's classes check."""

import asyncio
from dataclasses import replace

import pytest
from transformers import AutoTokenizer

from pipeline_lib.engines.chat_model import Decoding, Message, Request
from pipeline_lib.engines.client.client import ServerChat
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.known.sglang import SGLANG
from pipeline_lib.engines.launch.supervised import start_supervised
from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.engines.started_engine import connect
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import FinishReason
from tests.unit.engines.launch.real_engines import PROMPTS, process_ids, swap_adapters
from tests.unit.engines.sglang.environment import make_environment

SAMPLED = Decoding(temperature=0.7, max_new_tokens=8)
CONVERSATION = ServerChat().render([Message.user("12,5,3=51\n"), Message.assistant("5")])


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    environment = make_environment(tmp_path_factory.mktemp("sglang") / "environment")
    return ServeParams(engine="sglang", port=18950, environment=str(environment))


@pytest.fixture(scope="module")
def chat_model(llama, tmp_path_factory):
    """The model with a template that joins the contents of messages."""
    folder = tmp_path_factory.mktemp("chat")
    for path in llama.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    tokenizer = AutoTokenizer.from_pretrained(llama)
    tokenizer.chat_template = "{% for one in messages %}{{ one.content }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.mark.slow
def test_adapters_swap_while_it_runs(serve, llama, adapters, greedy, tmp_path):
    """Requests to ``base:adapter`` equal transformers with the adapter merged; an unloaded one is refused."""
    with serving_engine(serve, model=str(llama), log_folder=tmp_path, lora_rank=16) as engine:
        swap_adapters(engine, adapters, greedy)
    assert process_ids(engine) == []


@pytest.mark.slow
def test_the_chat_route_whole_and_streamed(serve, chat_model, tmp_path):
    """A client of its URL draws by messages what the model in process draws; a stream has the same text."""
    own = EmbeddedEngine.load(chat_model, batch_size=8)
    with serving_engine(serve, model=chat_model, log_folder=tmp_path) as engine:
        at = serve.model_copy(update={"engine": "url", "url": engine.endpoint.base_url})
        client = connect(replace(engine.endpoint, engine="url"), at, model="")
        [drawn] = client.complete([Request(prompt=CONVERSATION, seeds=[3, 4])], SAMPLED)

        async def streamed():
            parts = []
            async with client.open() as session:
                request = Request(prompt=CONVERSATION, seeds=[4])
                return parts, await session.stream(request, SAMPLED, lambda *p: parts.append(p[0]))

        parts, whole = asyncio.run(streamed())
    # The template of this test renders as plain text.
    [expected] = own.complete([Request(prompt="12,5,3=51\n5", seeds=[3, 4])], SAMPLED)
    for there, here in zip(drawn, expected, strict=True):
        assert there.error is None
        assert (there.text, there.token_ids) == (here.text, here.token_ids)
        assert there.token_logprobs == pytest.approx(here.token_logprobs, abs=1e-3)
    assert "".join(parts) == whole.text == drawn[1].text
    assert whole.completion_tokens == drawn[1].completion_tokens


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["--enable-deterministic-inference", "environment"])
def test_what_the_launch_must_set(serve, llama, tmp_path, missing):
    """Without the option seeds are ignored; without the variable no log-probability is before temperature."""

    def launch(params, served):
        whole = SGLANG.launch(params, served)
        if missing == "environment":
            kept = {name: one for name, one in whole.environment.items() if "SGLANG" not in name}
            return replace(whole, environment=kept)
        return replace(whole, command=tuple(word for word in whole.command if word != missing))

    engine = start_supervised(
        replace(SGLANG, launch=launch), serve, model=str(llama), lora_rank=None, log_folder=tmp_path
    )
    try:
        client = connect(engine.endpoint, serve, model=str(llama))
        requests = [Request(prompt=prompt, seeds=[1, 1, 2]) for prompt in PROMPTS]
        drawn = client.complete(requests, SAMPLED)
    finally:
        engine.stop()
    if missing == "environment":
        assert {one.finish_reason for paths in drawn for one in paths} == {FinishReason.ERROR}
        assert "log-probabilities after temperature" in drawn[0][0].error
    else:
        assert any(first.token_ids != second.token_ids for first, second, _ in drawn)
