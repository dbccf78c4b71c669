"""A model contract: every entry point sees the same token ids for the same problem, whatever the model is.

The expected ids come from transformers alone: its chat template, or the tokenizer's begin token and the text.
"""

import pathlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import httpx
import pytest
import torch

from pipeline_lib.engines.chat_model import Decoding, Request, ScoredText
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.engines.embedded.scoring import PolicyScorer
from pipeline_lib.engines.identity import Endpoint
from pipeline_lib.engines.pretrained import load_chat_format, load_tokenizer
from pipeline_lib.engines.server.prompts import PromptTokenizer
from pipeline_lib.engines.server.schemas import Message
from pipeline_lib.engines.started_engine import connect
from pipeline_lib.engines.tokens import TEMPLATE_DATE, encode_prompt, encode_text
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import LoraParams, Method, TrainParams
from pipeline_lib.records import Problem
from pipeline_lib.sampling.prompts import instruction, render
from pipeline_lib.systems.apr.threads import TextTokens
from pipeline_lib.systems.loop.context import prompt_lengths
from pipeline_lib.train.methods import TrainingRequest, train_policy
from pipeline_lib.train.offline import dpo, sft
from pipeline_lib.train.online.live_rollouts import LiveRollouts
from pipeline_lib.train.token_budget import Tokens
from pipeline_lib.train.weights.export import export_model
from pipeline_lib.train.weights.policies import load_policy, save_policy
from tests.unit.engines.scripted_server import MODEL, scripted_server
from tests.unit.engines.served_model import served
from tests.unit.tiny_models import TINY_MODELS, save_tiny_model

PROBLEM = Problem(
    id="p", question="What is 3 + 4?", gold=MathGold(answer="7"), source="test", solution="7"
)
DECODING = Decoding(max_new_tokens=3)
SOME = ["bos", "template with bos, tokenizer too", "SentencePiece, prepend"]
"""Enough for entry points that start something."""
Ids = list[int]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The folder of a model by its name in the table, made once."""
    made: dict[str, str] = {}
    place = tmp_path_factory.mktemp("tiny-models")

    def make(name: str) -> str:
        if name not in made:
            made[name] = str(save_tiny_model(TINY_MODELS[name], place / str(len(made))))
        return made[name]

    return make


def expected_ids(name: str, folder: str) -> Ids:
    """What the model was taught with, by transformers' own functions."""
    tokenizer: Any = load_tokenizer(folder)
    if TINY_MODELS[name].template is None:
        text = f"{instruction(PROBLEM)}\n\n"
        begin = [tokenizer.bos_token_id] if TINY_MODELS[name].adds_bos else []
        return [*begin, *tokenizer(text, add_special_tokens=False)["input_ids"]]
    ids: Ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": instruction(PROBLEM)}],
        add_generation_prompt=True,
        return_dict=False,
        strftime_now=TEMPLATE_DATE.strftime,
    )
    return ids


@contextmanager
def embedded_rows() -> Iterator[list[Ids]]:
    """The rows of token ids that enter any embedding during the block."""
    rows: list[Ids] = []

    def look(module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, torch.nn.Embedding):
            rows.extend(inputs[0].reshape(-1, inputs[0].shape[-1]).tolist())

    handle = torch.nn.modules.module.register_module_forward_pre_hook(look)
    try:
        yield rows
    finally:
        handle.remove()


def holds(row: Sequence[int], part: Sequence[int]) -> bool:
    """True if ``part`` is a contiguous part of ``row``."""
    return any(row[at : at + len(part)] == part for at in range(len(row) - len(part) + 1))


def prompt_of(folder: str) -> str:
    return render(PROBLEM, load_chat_format(folder))


def row_of(folder: str) -> dict[str, Any]:
    texts = {"completion": "7", "chosen": "7", "rejected": " 8", "problem_id": "p"}
    return {"prompt": prompt_of(folder), **texts}


def read_before(folder: str, tokens: Sequence[int], logprobs: Sequence[float]) -> Ids:
    """Which of three prompts the tokens were drawn behind: its log-probabilities by transformers are far nearer."""
    policy = load_policy(folder)
    tokenizer, model = policy.tokenizer, policy.model.eval()
    plain = tokenizer(prompt_of(folder), add_special_tokens=False)["input_ids"]
    bos = tokenizer.bos_token_id
    stripped = plain[1:] if plain[0] == bos else plain
    found = []
    for prompt in (stripped, [bos, *stripped], [bos, bos, *stripped]):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([[*prompt, *tokens]])).logits[0].double()
        own = logits.log_softmax(-1)[len(prompt) - 1 : -1]
        own = own.gather(-1, torch.tensor(tokens)[:, None])[:, 0]
        found.append((float((own - torch.tensor(logprobs).double()).abs().max()), prompt))
    (error, nearest), (other, _), _ = sorted(found)
    # In bfloat16 sums are rounded as the processor's kernels order them: up to .05.
    assert error < min(0.08, other / 2)
    return nearest


def drawn(folder: str) -> Ids:
    """What the embedded engine draws from."""
    engine = EmbeddedEngine.load(folder, batch_size=4)
    [[path]] = engine.complete([Request(prompt=prompt_of(folder), seeds=[1])], DECODING)
    prompt = read_before(folder, path.token_ids, path.token_logprobs)
    context = engine.model.config.max_position_embeddings
    assert path.prompt_tokens == len(prompt) == context - engine.room(prompt_of(folder))
    return prompt


def scored(folder: str) -> Ids:
    """What the scorer's model sees, without the scored text."""
    policy = load_policy(folder)
    text = ScoredText(prompt=prompt_of(folder), text="", ended=True)
    with embedded_rows() as rows:
        PolicyScorer(model=policy.model.eval(), tokenizer=policy.tokenizer).score([text])
    assert rows[0][-1] == policy.tokenizer.eos_token_id
    return rows[0][:-1]


def taught(folder: str) -> Ids:
    """The part of an SFT row without a label."""
    row = sft.tokenize(row_of(folder), load_policy(folder).tokenizer)
    return [token for token, label in zip(*row.values(), strict=True) if label != token]


def compared(folder: str) -> Ids:
    """The prompt of a DPO pair; its completions are those of SFT and end."""
    tokenizer = load_policy(folder).tokenizer
    pair, row = (
        dpo.tokenize_pair(row_of(folder), tokenizer),
        sft.tokenize(row_of(folder), tokenizer),
    )
    assert pair["prompt_ids"] + pair["chosen_ids"] == row["input_ids"]
    assert pair["rejected_ids"][-1] == tokenizer.eos_token_id
    return pair["prompt_ids"]


def rolled_out(folder: str) -> Ids:
    """The prompt of a path of GRPO, RLOO and PPO."""
    policy = load_policy(folder)
    source = LiveRollouts(decoding=DECODING, seed=1)
    [path] = source.draw(
        [prompt_of(folder)], model=policy.model, tokenizer=policy.tokenizer, step=0
    )
    assert read_before(folder, path.completion_ids, path.logprobs) == path.prompt_ids
    return list(path.prompt_ids)


def rendered_by_the_server(folder: str) -> Ids:
    """What our server's chat route draws from; without a template, what a client's text gives by vLLM's default."""
    tokenizer = load_tokenizer(folder)
    prompts = PromptTokenizer(tokenizer=tokenizer, vocabulary_size=1 << 20, context_tokens=512)
    if tokenizer.chat_template:
        message = Message.model_validate({"role": "user", "content": instruction(PROBLEM)})
        return prompts.encode(prompts.render([message]))
    ids = prompts.encode(prompt_of(folder), partial(encode_text, add_special_tokens=True))
    return ids[: len(ids) - (ids[-1] == tokenizer.eos_token_id)]


def counted(folder: str) -> Ids:
    """What checks of the context count, and the threads of APR draw from."""
    ids = TextTokens.of(load_tokenizer(folder)).encode(prompt_of(folder))
    [(_, tokens)] = prompt_lengths([PROBLEM], pathlib.Path(folder))
    assert tokens == len(ids)
    return ids


ENTRY_POINTS: list[Callable[[str], Ids]] = [
    drawn,
    scored,
    taught,
    compared,
    rolled_out,
    rendered_by_the_server,
    counted,
]


@pytest.mark.parametrize("name", TINY_MODELS)
def test_every_entry_point_sees_the_same_token_ids(name, folders):
    """Sampling, scoring, SFT, DPO, online training, our server and the checks before them."""
    folder = folders(name)
    expected = expected_ids(name, folder)
    assert {one.__name__: one(folder) for one in ENTRY_POINTS} == {
        one.__name__: expected for one in ENTRY_POINTS
    }


def test_a_server_gets_the_token_ids_from_our_client(folders):
    """vLLM and any other server that is asked for completions: no server's own tokenizer has a say."""
    with scripted_server() as server:
        for name in TINY_MODELS:
            endpoint = Endpoint(
                engine="vllm",
                base_url=f"http://127.0.0.1:{server.port}/v1",
                model=MODEL,
                identity="digest",
            )
            serve = ServeParams(engine="vllm", start_timeout_s=120.0)
            client = connect(endpoint, serve, model=folders(name))
            client.complete([Request(prompt=prompt_of(folders(name)), seeds=[1])], DECODING)
            assert server.bodies[-1]["prompt"] == expected_ids(name, folders(name))


@pytest.mark.parametrize("name", SOME)
def test_our_server_draws_from_the_same_ids(name, folders):
    """As token ids, as a text by vLLM's default, and by the chat route."""
    folder = folders(name)
    expected = expected_ids(name, folder)
    tokenizer: Any = load_tokenizer(folder)
    prompt = prompt_of(folder)
    asked = {"model": "models/policy", "max_tokens": 3, "seed": 1, "return_token_ids": True}

    def ask(route: str, **body: Any) -> Ids:
        reply = httpx.post(f"{url}/{route}", json=asked | body).raise_for_status().json()
        [choice] = reply["choices"]
        logprobs = choice["logprobs"]
        numbers = logprobs.get("token_logprobs") or [one["logprob"] for one in logprobs["content"]]
        read = read_before(folder, choice["token_ids"], numbers)
        assert reply["usage"]["prompt_tokens"] == len(read)
        return read

    with served(folder) as url:
        assert ask("completions", prompt=expected, logprobs=0) == expected
        # With a template the text begins itself, and vLLM's default begins it once more.
        assert ask("completions", prompt=prompt, logprobs=0) == tokenizer(prompt)["input_ids"]
        if tokenizer.chat_template:
            turns = [{"role": "user", "content": instruction(PROBLEM)}]
            assert ask("chat/completions", messages=turns, logprobs=True) == expected


@pytest.mark.parametrize("name", TINY_MODELS)
def test_saved_and_exported_models_see_the_same_ids_again(name, folders, tmp_path):
    """A policy that was trained here and an exported model are tokenized as their source."""
    folder = folders(name)
    policy = load_policy(folder)
    save_policy(policy.model, tmp_path / "policy", source=folder, log=[], key="k", tokens=Tokens())
    export_model(str(tmp_path / "policy"), tmp_path / "exported")
    for saved in ("policy", "exported"):
        source = str(tmp_path / saved)
        assert encode_prompt(load_tokenizer(source), prompt_of(source)) == expected_ids(
            name, source
        )
        assert expected_ids(name, source) == expected_ids(name, folder)


@pytest.mark.parametrize(
    ("method", "lora"), [*((method, False) for method in Method), (Method.SFT, True)]
)
@pytest.mark.parametrize(
    "name",
    [name if name == "bos" else pytest.param(name, marks=pytest.mark.slow) for name in TINY_MODELS],
)
def test_a_step_of_each_trainer_reads_the_same_ids(name, method, lora, folders, tmp_path):
    """The prompt is in what the model reads, and has one begin token."""
    folder = folders(name)
    expected = expected_ids(name, folder)
    request = TrainingRequest(
        base=folder,
        output=tmp_path / "policy",
        rows=[row_of(folder)] * 2,
        problems=[PROBLEM],
        params=TrainParams(
            method=method,
            steps=1,
            batch_size=2,
            group_size=2,
            # Equal rewards have no gradient.
            entropy_coef=0.1,
            warm_start_steps=0,
            checkpoint_every=1,
            threads=1,
            lora=LoraParams(enabled=lora, rank=2),
        ),
        verify=VerifyParams(),
        max_new_tokens=3,
        seed=5,
        key="key",
    )
    with embedded_rows() as rows:
        train_policy(request)
    reads = [row for row in rows if holds(row, expected)]
    assert reads
    assert not any(holds(row, [load_tokenizer(folder).bos_token_id, *expected]) for row in reads)
