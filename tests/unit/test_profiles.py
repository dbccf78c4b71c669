"""The profiles of the repository: each is valid, and its engine accepts its options."""

import pathlib
import subprocess

import pytest

from benchmarks.lib.latent_presets import LATENT_PRESETS
from benchmarks.lib.repository import REPOSITORY
from pipeline_lib import defaults
from pipeline_lib.params_file import load_params
from pipeline_lib.systems.classmate.reward import check_method

PROFILES = sorted(defaults.find_profiles())


@pytest.mark.parametrize("profile", PROFILES)
def test_profile_is_valid(profile: str):
    """It loads over the defaults and needs no external server."""
    params = load_params(profile=profile)
    assert params.prepare.train_problems > 0
    assert params.serve.engine != "url"


PUBLISHED = {
    "model": {
        "width": 256,
        "heads": 4,
        "layers": 2,
        "expansion": 4,
        "num_branches": 8,
        "steps": 8,
        "grad_steps": 2,
        "alpha": 0.1,
        "comm_interval": 2,
        "comm_temperature": 1,
        "start_noise": 0.1,
        "prefix_tokens": 16,
    },
    "loss": {"tau_start": 0.1, "tau_end": 0.1, "scorer": 0.5, "diversity": 0.1},
}
"""hidden_size, num_heads, num_layers, expansion, num_branches, num_steps, grad_steps, comm_alpha, comm_interval, comm_temp,
init_noise_std, puzzle_emb_len; tau, scorer_weight, diversity_weight."""


def test_the_published_profile_is_the_published_form():
    """The published values, and model and loss of the preset; training is that of prr-arc, votes are the scorer's."""
    published, arc = (load_params(profile=name).prr for name in ("prr-published-arc", "prr-arc"))
    preset = LATENT_PRESETS["brief"]
    assert (published.model, published.loss) == (preset.model, preset.loss)
    for section, values in PUBLISHED.items():
        assert getattr(published, section).model_dump(include={*values}) == values
    assert published.train == arc.train
    assert published.evaluate == arc.evaluate.model_copy(update={"voters": "scorer"})


@pytest.mark.parametrize(("preset", "mixer"), [("trm", "attention"), ("trm-mlp", "mlp")])
def test_the_trm_profile_is_the_published_model(preset: str, mixer: str):
    """Sizes are the preset's with either mixer; training and evaluation are those of prr-arc."""
    override = f"prr.model.mixer={mixer}"
    trm, arc = (load_params(profile=p, overrides=[override]).prr for p in ("prr-trm", "prr-arc"))
    assert (trm.model, trm.loss) == (LATENT_PRESETS[preset].model, LATENT_PRESETS[preset].loss)
    assert (trm.train, trm.evaluate) == (arc.train, arc.evaluate)


@pytest.mark.parametrize(
    ("profile", "window", "style", "parameters"),
    [
        ("apr-four", 384, "compact", 5.1e6),
        ("apr-published", 4096, "published", 25.7e6),
        ("apr-paper", 4096, "published", 228e6),
    ],
)
def test_the_profiles_of_threads_are_of_four_numbers(
    profile: str, window: int, style: str, parameters: float
):
    """Of the stated size: four projections of width x width, and three of width x FFN, in each layer."""
    apr = load_params(profile=profile).apr
    model = apr.model
    width, feed_forward = model.hidden_size, model.feed_forward_size
    a_layer = 4 * width**2 + 3 * width * feed_forward
    assert model.num_layers * a_layer == pytest.approx(parameters, rel=0.01)
    assert apr.data.countdown.num_numbers == 4
    assert (model.window, apr.data.style) == (window, style)


@pytest.mark.parametrize(("profile", "quantize"), [("pacore-3b", "4bit"), ("pacore-smol", "none")])
def test_the_profiles_of_one_command_draw_their_branches(profile: str, quantize: str):
    """PPO from the base that the stages make, with branches of the present policy; the large base is in 4 bits."""
    params = load_params(profile=profile)
    pacore = params.pacore
    assert (pacore.start, pacore.train.method, pacore.train.branches) == ("base", "ppo", "drawn")
    assert pacore.train.lora.quantize == quantize
    assert params.bootstrap.model is not None


@pytest.mark.parametrize(("profile", "actor"), [("classmate-gsm8k", "3B"), ("classmate-smol", "")])
def test_vllm_draws_the_actor_beside_two_peers(profile: str, actor: str):
    """By endpoint, with the step's adapter, on GSM8K; only the large one asks for GPUs: one, and two CPUs, for each peer."""
    params = load_params(profile=profile)
    classmate = params.classmate
    assert (params.serve.engine, classmate.train.rollouts) == ("vllm", "endpoint")
    assert classmate.prepare.dataset == "gsm8k"
    assert actor in (classmate.bootstrap.model or "")
    placed = [(one.num_gpus, one.num_cpus) for one in classmate.classmate_model_name_or_path_list]
    assert placed == [(1.0, 2.0) if actor else (0.0, 0.0)] * 2
    check_method(classmate, classmate.train)


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_options_are_the_engines_own(profile: str):
    """The parser of the installed vLLM accepts them."""
    params = load_params(profile=profile)
    python = pathlib.Path(REPOSITORY, params.serve.environment, "bin", "python")
    if params.serve.engine != "vllm":
        pytest.skip("the embedded engine has no command line")
    if not python.is_file():
        pytest.skip("no environment with vLLM; run `make serve-env`")
    script = (
        "import sys\n"
        "from vllm.entrypoints.launchers.cli_args import make_arg_parser\n"
        "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
        "make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:])\n"
    )
    command = [str(python), "-c", script, "--model", "m", *params.serve.options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]
