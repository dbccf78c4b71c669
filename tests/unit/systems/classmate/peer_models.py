"""Tiny models with random weights as peers, and questions for them."""

import pathlib

import torch
from starlette.responses import JSONResponse

from pipeline_lib.engines.chat_model import Decoding
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.classmate import PeerParams
from pipeline_lib.params.paths import BootstrapParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.records import Problem
from pipeline_lib.systems.classmate.peer import Question
from pipeline_lib.train.bootstrap import (
    make_tokenizer,
    save_blank_llama,
    save_blank_policy,
)
from tests.unit.engines.scripted_server import MODEL, ScriptedServer, completion

COUNTDOWN = Problem(
    id="c", question="Make 24.", gold=CountdownGold(numbers=(3, 5, 3), target=24), source="test"
)
MATH = Problem(id="m", question="What is 1+1?", gold=MathGold(answer="2"), source="test")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
MARKS = ["<|user|>", "<|assistant|>", "<|end|>"]
ROWS = [{"prompt": "3,5,3=24\n", "completion": "3+5=8\n8*3=24\n#### (3+5)*3"}]
DECODING = Decoding(temperature=0.7, top_p=0.9, max_new_tokens=12)
QUESTIONS = [
    Question(problem=COUNTDOWN, prefix="3+5=8\n", seeds=(5, 6)),
    Question(problem=MATH, prefix="", seeds=(7,)),
]


def save_peer(folder: pathlib.Path, *, seed: int = 3) -> pathlib.Path:
    """A Llama of one layer that reads compact prompts."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        save_blank_policy(folder, ROWS, BootstrapParams(hidden_size=16, num_layers=1, num_heads=2))
    return folder


def save_chat_peer(folder: pathlib.Path) -> pathlib.Path:
    """A Llama with a chat template, the marks of which are special tokens."""
    tokenizer = make_tokenizer([row["prompt"] + row["completion"] for row in ROWS])
    tokenizer.add_special_tokens({"additional_special_tokens": MARKS})
    tokenizer.chat_template = CHAT_TEMPLATE
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 512,
    }
    with torch.random.fork_rng():
        torch.manual_seed(5)
        save_blank_llama(folder, tokenizer, **sizes)
    return folder


def served_at(server: ScriptedServer, name: str, *, tokenizer: pathlib.Path) -> PeerParams:
    """A peer whose engine is a server that already runs."""
    url = f"http://127.0.0.1:{server.port}/v1"
    serve = ServeParams(engine="url", url=url, tokenizer=str(tokenizer))
    return PeerParams(name=name, model=MODEL, serve=serve)


async def answers(_request, body) -> JSONResponse:
    """The usual response; also of the first token, which is drawn without a seed."""
    if "seed" in body:
        return JSONResponse(completion(body))
    one = {"prompt_tokens": 1, "completion_tokens": 1}
    return JSONResponse(completion({"n": 1, "seed": 0} | body, usage=one))
