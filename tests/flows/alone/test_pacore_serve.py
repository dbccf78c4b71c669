"""`reasonloop pacore serve` as a user runs it: the real engine, and the public client."""

import asyncio
import json
import pathlib
import re
import shutil
import signal
from functools import partial

import httpx
import openai
import psutil
import pytest

from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.train.bootstrap import save_blank_policy
from tests.flows.alone.conftest import GIVE_UP_S, Serving

QUESTION = [{"role": "user", "content": "2,3,7=42"}]
TURNS = [
    {"role": "system", "content": "1"},
    {"role": "user", "content": "2,3=6"},
    {"role": "assistant", "content": "2*3=6"},
    *QUESTION,
]
CONTEXT_TOKENS = 8192


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> pathlib.Path:
    """A small Llama of random weights with a chat template."""
    folder = tmp_path_factory.mktemp("model")
    params = BootstrapParams(hidden_size=16, num_layers=1, num_heads=2)
    save_blank_policy(folder, [{"prompt": "2,3,7=42\n", "completion": "2*3=6\n6*7=42"}], params)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    # Room for the references of a synthesis.
    config["max_position_embeddings"] = CONTEXT_TOKENS
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    template = "{% for message in messages %}{{ message.role }}:{{ message.content }}\n{% endfor %}"
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    return folder


class Gateway(Serving):
    """The command while it serves."""

    @property
    def base_url(self) -> str:
        [line] = [line for line in self.lines if line.startswith("base URL:")]
        return line.split()[-1]

    @property
    def model(self) -> str:
        return next(line for line in self.lines if line.startswith("model:")).split()[-1]

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=self.base_url, api_key="none", max_retries=0, timeout=300)

    def engine_port(self) -> int:
        """Of the engine, which listens beside the gateway."""
        [port] = {
            connection.laddr.port
            for process in self.family
            for connection in process.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        return port


@pytest.fixture(scope="module")
def start(serve):
    """Start the command; what still runs at the end is stopped."""
    return partial(serve, "pacore", "serve", kind=Gateway)


def options(folder, *, port):
    return [
        *("--engine", "embedded", "--port", port, "--workspace", folder),
        *("--set", "serve.port=19500", "--set", "pacore.max_new_tokens=8"),
    ]


@pytest.fixture(scope="module")
def serving(start, model, tmp_path_factory):
    """One command for the tests that leave it running."""
    return start(model, *options(tmp_path_factory.mktemp("workspace"), port=19400))


def ask(serving, name=":low", **more):
    asked = {"model": f"{serving.model}{name}", "messages": TURNS, "seed": 3} | more
    return serving.client().chat.completions.create(**asked)


def test_models_and_health(serving, model):
    """Four names, made of the one that was given; 200 while the engine lists its model."""
    assert serving.model == str(model)
    names = [one.id for one in serving.client().models.list()]
    assert names == [serving.model, *(f"{serving.model}:{n}" for n in ("low", "medium", "high"))]
    assert httpx.get(serving.base_url.replace("/v1", "/health")).status_code == 200


def test_a_plain_call_is_the_engine_s_own_answer(serving):
    """The bare name and a seed: the text of the engine's chat route, and its usage."""
    direct = openai.OpenAI(base_url=f"http://127.0.0.1:{serving.engine_port()}/v1", api_key="none")
    [served] = [model.id for model in direct.models.list()]
    expected = direct.chat.completions.create(model=served, messages=TURNS, seed=3, max_tokens=8)
    answer = ask(serving, "")
    assert answer.choices[0].message.content == expected.choices[0].message.content
    assert answer.usage.total_tokens == expected.usage.total_tokens


@pytest.mark.slow
def test_a_killed_engine_costs_a_retry_and_sigterm_leaves_no_process(start, model, tmp_path):
    """The engine is killed under a request, which is answered; the restart is reported.

    SIGTERM: code 143, and an open stream has an error event.
    """
    serving = start(model, *options(tmp_path, port=19450))
    before = ask(serving)
    asked = {"model": serving.model, "messages": TURNS, "seed": 3}
    more = {"pacore": {"widths": [600]}}

    async def ask_and_kill():
        async with openai.AsyncOpenAI(
            base_url=serving.base_url, api_key="none", max_retries=0, timeout=300
        ) as client:
            create = client.chat.completions.create
            long = asyncio.create_task(create(**asked, max_tokens=1000, extra_body=more))
            await asyncio.sleep(1.0)
            for process in serving.family:
                if "pipeline_lib.engines.server.server" in process.cmdline():
                    process.kill()
            return await long

    answer = asyncio.run(ask_and_kill())
    [paths, last] = answer.model_extra["pacore"]["rounds"]
    assert (paths["asked"], paths["failed"], last["failed"]) == (600, 0, 0)
    figures = httpx.get(serving.base_url.replace("/v1", "/metrics")).text
    assert re.search(r"^reasonloop_pacore_retried_calls_total\{.*\} 1\.0$", figures, re.MULTILINE)
    serving.wait_for("engine restarted: ")
    assert ask(serving).choices[0].message.content == before.choices[0].message.content
    family = serving.family
    body = asked | {"pacore": {"widths": [1000]}, "max_tokens": 4000, "stream": True}
    url = f"{serving.base_url}/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=GIVE_UP_S) as response:
        lines = response.iter_lines()
        assert next(lines).startswith(": round 1 of 2, 1000 calls")
        ended = serving.end(signal.SIGTERM)
        assert "the server is stopping" in "".join(lines)
    assert ended == (143, "")
    assert family
    assert not [process for process in family if process.is_running()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere"], "model /nowhere: no such folder"),
        (["NAME", "--engine", "url"], "url=null; engine=url needs the address"),
        (["PLAIN"], "the model has no chat template"),
    ],
)
def test_bad_input_is_one_line(refused, model, tmp_path, arguments, message):
    """Exit code 2, and no process is left."""
    plain = shutil.copytree(model, tmp_path / "plain")
    (plain / "chat_template.jinja").unlink()
    given = [word.replace("PLAIN", str(plain)) for word in arguments]
    before = {*psutil.Process().children()}
    assert message in refused("pacore", "serve", *given, "--workspace", tmp_path, "--port", "19480")
    assert {*psutil.Process().children()} <= before
