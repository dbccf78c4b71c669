"""Threads of a step drawn by a served engine under the step's adapter, and by functions and grammars of one's own."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from peft import get_peft_model
from starlette.responses import JSONResponse

from pipeline_lib.engines.running_engine import serving_engine
from pipeline_lib.engines.started_engine import connect
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.params.apr import AprRlParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.params.serve import ServeParams
from pipeline_lib.params.train import LoraParams
from pipeline_lib.seeding import child_seed
from pipeline_lib.systems.apr.data_folder import problem_file
from pipeline_lib.systems.apr.model_record import read_record
from pipeline_lib.systems.apr.problem_lines import read_problems
from pipeline_lib.systems.apr.rl import train_by_rl
from pipeline_lib.systems.apr.sft import train_on_traces
from pipeline_lib.systems.apr.task import load_named
from pipeline_lib.systems.apr.tasks import task_of
from pipeline_lib.systems.apr.training_draws import ThreadDraws
from pipeline_lib.systems.apr.words.grammars import PointerGrammar
from pipeline_lib.train.online.rollouts import StepAdapter
from pipeline_lib.train.weights.adapters import make_lora_config
from pipeline_lib.train.weights.policies import load_policy
from tests.unit.engines.scripted_server import completion, scripted_server
from tests.unit.systems.apr.words.tiny_words import WINDOW, params_of

LORA = LoraParams(enabled=True, rank=4, alpha=8)
SERVE = ServeParams(engine="embedded", port=8463)
RL = AprRlParams(steps=1, prompts=2, group_size=2, updates=1)


@pytest.fixture(scope="module")
def model(base, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parallel") / "model"
    train_on_traces(data, "parallel", folder, params_of(base), seed=1)
    return folder


def test_a_server_draws_the_threads_that_this_process_draws(model, data, tmp_path):
    """Path by path, at two steps of other weights."""
    policy = load_policy(str(model))
    trained = get_peft_model(policy.model, make_lora_config(LORA)).eval()
    problems = read_problems(problem_file(data, "train"))[:2]
    of_tokenizer = partial(task_of, read_record(model), verify=VerifyParams())
    prompts = {of_tokenizer(policy.tokenizer).prompt(one, ""): one for one in problems}
    here = ThreadDraws(problems=prompts, task_of=of_tokenizer)
    options = {"temperature": 1.0, "tokenizer": policy.tokenizer, "window": WINDOW}
    with serving_engine(
        SERVE, model=str(model), log_folder=tmp_path / "logs", lora_rank=4
    ) as engine:
        adapter = StepAdapter(
            engine=engine,
            model_at=lambda endpoint: connect(endpoint, SERVE, model=str(model)),
            folder=tmp_path / "adapters",
        )
        there = ThreadDraws(problems=prompts, task_of=of_tokenizer, at=adapter, concurrency=4)
        for step in range(2):
            seed = child_seed(1, "draw", step)
            drawn, served = (
                draws(trained, [*prompts], seed=seed, **options) for draws in (here, there)
            )
            for one, other in zip(drawn, served, strict=True):
                for sequence, same in zip(one["seqs"], other["seqs"], strict=True):
                    logprobs = (sequence.pop("logprobs"), same.pop("logprobs"))
                    assert sequence == same
                    torch.testing.assert_close(*map(torch.tensor, logprobs), atol=1e-3, rtol=0)
            with torch.no_grad():
                for name, weight in trained.named_parameters():
                    if "lora_" in name:
                        weight.add_(
                            0.5 * torch.randn(weight.shape, generator=torch.manual_seed(step))
                        )


def test_weights_are_not_sent_to_an_engine(model, data, tmp_path):
    """One line, before anything is started."""
    rl = RL.model_copy(update={"rollouts": "endpoint"})
    with pytest.raises(BadInputError, match=r"adapters alone between steps; set apr\.model\.lora"):
        train_by_rl(model, data, tmp_path / "out", rl, seed=1, verify=VerifyParams())


OWN_GRAMMAR = PointerGrammar()
CALLS = []


def sequence(prefix, ids):
    made = {"prefix": prefix, "output": "ab", "role": "parent", "round": 0, "child": None}
    return made | {"output_ids": ids}


def own_rollout(model, prefix_list, *, problems, temperature, tokenizer, window, seed):
    """Writes an answer of its own for every prompt, and rewards the longer questions."""
    CALLS.append((temperature, window, seed))
    ids = [*tokenizer.encode("ab"), tokenizer.eos_token_id]
    return [
        {
            "seqs": [sequence(one, ids)],
            "is_correct": False,
            "reward": float(len(problems[one].question)),
        }
        for one in prefix_list
    ]


def test_a_function_of_ones_own_draws_and_rewards(model, data, tmp_path):
    """It gets prompts with their problems; its rewards are those of the log."""
    rl = RL.model_copy(update={"rollout": f"{__name__}:own_rollout", "lr": 1e-3})
    seen = []
    train_by_rl(
        *(model, data, tmp_path / "out", rl),
        seed=1,
        verify=VerifyParams(),
        progress=lambda _step, _total, metrics: seen.append(metrics),
    )
    assert len(CALLS) == 1
    assert seen[0]["reward"] > 50
    assert seen[0]["accuracy"] == 0


def test_the_example_trains(model, data, tmp_path):
    """Twenty lines: our rollouts with a reward of their own."""
    rl = RL.model_copy(update={"rollout": "examples.apr_rollouts:draw"})
    manifest = train_by_rl(model, data, tmp_path / "out", rl, seed=1, verify=VerifyParams())
    assert manifest.counts["drawn_tokens"] > 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:f", "neither a file that ends in .py, nor an installed module"),
        (f"{__name__}:no_such_name", "has no no_such_name at its top level"),
        ("a b", "expected FILE.py:function, module:function or an entry point"),
        ("nowhere.py:GRAMMAR", "no such file"),
    ],
)
def test_what_cannot_be_imported_is_one_line(name, message):
    """With the key and the remedy."""
    with pytest.raises(BadInputError, match=rf"apr\.rl\.grammar=.*{message}"):
        load_named(name, key="apr.rl.grammar")


def test_a_file_that_fails_is_one_line(tmp_path):
    """With its cause."""
    (tmp_path / "failing.py").write_text("GRAMMAR = 1 / 0\n", "utf-8")
    with pytest.raises(BadInputError, match=r"GRAMMAR: cannot be imported: division by zero"):
        load_named(f"{tmp_path}/failing.py:GRAMMAR", key="apr.rl.grammar")


def test_a_grammar_of_ones_own_takes_the_place_of_the_models(model, data, tmp_path):
    """By its name, in a training."""
    rl = RL.model_copy(update={"grammar": f"{__name__}:OWN_GRAMMAR"})
    train_by_rl(model, data, tmp_path / "out", rl, seed=1, verify=VerifyParams())
    assert (tmp_path / "out" / "threads.json").is_file()


def test_a_reply_of_another_adapter_ends_the_draw(model, data):
    """The server says which model drew, and that is not the one of this step."""
    policy = load_policy(str(model))
    of_tokenizer = partial(task_of, read_record(model), verify=VerifyParams())
    [problem, *_] = read_problems(problem_file(data, "train"))
    prompts = {of_tokenizer(policy.tokenizer).prompt(problem, ""): problem}

    async def reply(_request, body):
        return JSONResponse(completion(body) | {"model": "policy@6"})

    with scripted_server() as server:
        server.always = reply
        at = SimpleNamespace(at_step=lambda _model, _step: (None, server.client()))
        draws = ThreadDraws(problems=prompts, task_of=of_tokenizer, at=at, concurrency=1)
        options = {"temperature": 1.0, "tokenizer": policy.tokenizer, "window": WINDOW, "seed": 7}
        with pytest.raises(
            ReasonloopError, match=r"from model policy@6.*not of this step's weights"
        ):
            draws(policy.model, [*prompts], **options)
