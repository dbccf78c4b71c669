"""GRPO on stored paths: which are taken, and that the policy learns from them without drawing."""

from dataclasses import replace

import pytest

from pipeline_lib.engines.chat_model import Decoding, Request
from pipeline_lib.engines.embedded.embedded_engine import EmbeddedEngine
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.paths import SampleParams
from pipeline_lib.params.train import Method, TrainParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Path
from pipeline_lib.sampling.paths import provenance_of
from pipeline_lib.store import manifests
from pipeline_lib.systems.loop.preflight import check_run
from pipeline_lib.systems.stage import Run
from pipeline_lib.train.methods import train_policy
from pipeline_lib.train.online.stored_rollouts import StoredRollouts, stored_by_prompt
from tests.unit.train.test_learning import RIGHT, WRONG, shares

NUM_PATHS = 16
TRAIN = {
    "rollouts": "stored",
    "lr": 2e-3,
    "steps": 30,
    "group_size": 8,
    "updates_per_rollout": 2,
    "warm_start_steps": 0,
    "entropy_coef": 0,
}


@pytest.fixture
def engine(half_right):
    return EmbeddedEngine.load(str(half_right), batch_size=NUM_PATHS)


@pytest.fixture
def stored(engine, half_solved):
    """Paths of the policy at the start, with the tokens and log-probabilities of each."""
    decoding = Decoding(max_new_tokens=8)
    request = Request(prompt=half_solved["rows"][0]["prompt"], seeds=range(NUM_PATHS))
    [completions] = engine.complete([request], decoding)
    return [
        Path(
            problem_id="p",
            index=index,
            text=one.text,
            finish_reason=one.finish_reason,
            prompt_tokens=one.prompt_tokens,
            completion_tokens=one.completion_tokens,
            logprob=one.logprob,
            provenance=provenance_of("t", engine, index, decoding),
            token_ids=one.token_ids,
            token_logprobs=one.token_logprobs,
        )
        for index, one in enumerate(completions)
    ]


def test_the_policy_learns_from_stored_paths(
    stored, half_right, half_solved, request_for, tmp_path
):
    """Probability moves from the wrong text to the right one; no token is drawn."""
    request = request_for(Method.GRPO, tmp_path / "out", train=TRAIN, stored=stored, **half_solved)
    train_policy(request)
    prompt = half_solved["rows"][0]["prompt"]
    before, after = shares(half_right, prompt), shares(tmp_path / "out", prompt)
    assert before[RIGHT] < 2 * before[WRONG]
    assert after[RIGHT] > 2 * after[WRONG]
    counts = manifests.read_manifest(tmp_path / "out").counts
    assert counts["drawn_tokens"] == 0
    assert counts["trained_tokens"] > 0


def test_a_step_takes_other_paths_and_the_same_again(stored, engine, half_solved):
    """A group has no path twice; a resumed training takes what an unbroken one takes."""
    prompt = half_solved["rows"][0]["prompt"]

    def taken(step, size=8):
        source = StoredRollouts(paths=stored_by_prompt(half_solved["rows"], stored), seed=3)
        paths = source.draw([prompt] * size, model=None, tokenizer=engine.tokenizer, step=step)
        return [(tuple(one.completion_ids), tuple(one.logprobs), one.failed) for one in paths]

    known = {(one.token_ids, one.token_logprobs, False) for one in stored}
    assert set(taken(1)) <= known
    assert taken(1) == taken(1)
    assert taken(1) != taken(2)
    [*_, last] = taken(1, size=NUM_PATHS + 1)
    assert last == ((engine.tokenizer.eos_token_id,), (0.0,), True)


def test_paths_without_tokens_are_refused(stored, half_solved, request_for, tmp_path):
    """And a training without any; a failed request is left out."""
    rows = half_solved["rows"]
    failed = replace(stored[0], error="no answer", token_ids=None)
    assert stored_by_prompt(rows, [failed, stored[1]]) == {rows[0]["prompt"]: [stored[1]]}
    with pytest.raises(BadInputError, match=r"path p#0 has no token ids .*keep_tokens=true"):
        stored_by_prompt(rows, [replace(stored[0], token_ids=None)])
    with pytest.raises(BadInputError, match="no stored paths"):
        train_policy(request_for(Method.GRPO, tmp_path / "out", train=TRAIN, **half_solved))


@pytest.mark.parametrize(
    ("sample", "complaint"),
    [
        ({"keep_tokens": False}, "sample.keep_tokens=False"),
        ({"temperature": 0.7}, "sample.temperature=0.7"),
        ({"top_p": 0.9}, "sample.top_p=0.9"),
        ({"shots": 2}, "sample.shots=2"),
        ({"num_paths": 4}, "train.group_size=8 of sample.num_paths=4"),
    ],
)
def test_a_run_is_refused_whose_samples_are_of_another_policy(sample, complaint, tmp_path):
    """Before any stage."""
    params = Params(
        sample=SampleParams(**{"keep_tokens": True, "num_paths": 8} | sample),
        train=TrainParams(method=Method.GRPO, rollouts="stored"),
    )
    with pytest.raises(BadInputError) as refused:
        check_run(Run(root=tmp_path, params=params), draws=False)
    assert complaint in str(refused.value)
