"""params.yaml: strict types, one line per error, profiles and overrides in order."""

import pathlib

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.params.environment import environment
from pipeline_lib.params.train import Method
from pipeline_lib.params.whole import Params
from pipeline_lib.params_file import RENAMED, load_params, set_param


def write(folder: pathlib.Path, content: str, name: str = "params.yaml") -> pathlib.Path:
    path = folder / name
    path.write_text(content)
    return path


def error_of(folder: pathlib.Path, content: str) -> str:
    with pytest.raises(BadInputError) as caught:
        load_params(write(folder, content))
    return str(caught.value)


def test_empty_file_gives_the_defaults(tmp_path: pathlib.Path):
    """Every key has a default."""
    assert load_params(write(tmp_path, "")) == Params()


def test_overrides_beat_the_profile_beats_the_file(tmp_path: pathlib.Path):
    """Each source changes its own keys only: lr by the override, steps by the profile."""
    path = write(tmp_path, "train: {lr: 0.1, steps: 1, batch_size: 4}")
    profile = write(tmp_path, "train: {lr: 0.2, steps: 2}", name="short.yaml")
    train = load_params(path, profile=str(profile), overrides=["train.lr=0.3"]).train
    assert (train.lr, train.steps, train.batch_size) == (0.3, 2, 4)


@pytest.mark.parametrize("text", ["1e-4", "1E-4", "1.0e-4", "0.0001", "+1e-4"])
def test_exponents_are_numbers(tmp_path: pathlib.Path, text: str):
    """1e-4 is a number in a file and in an override, with or without a dot."""
    assert load_params(write(tmp_path, f"train: {{lr: {text}}}")).train.lr == 0.0001
    assert load_params(write(tmp_path, ""), overrides=[f"train.lr={text}"]).train.lr == 0.0001


def test_override_values_are_yaml(tmp_path: pathlib.Path):
    """Lists, enums, null and strings are accepted, and the last override of a key wins."""
    params = load_params(
        write(tmp_path, ""),
        overrides=[
            "evaluate.ks=[1, 2]",
            "train.method=dpo",
            "bootstrap.model=first",
            "bootstrap.model=owner/name",
            "prepare.source=null",
        ],
    )
    assert params.evaluate.ks == (1, 2)
    assert params.train.method is Method.DPO
    assert params.bootstrap.model == "owner/name"
    assert params.prepare.source is None


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("tran: {lr: 1}", "unknown key 'tran'; did you mean 'train'? see params.yaml"),
        ("train: {leaning: 1}", "unknown key 'train.leaning'; see params.yaml"),
        ("train: {lrr: 1}", "unknown key 'train.lrr'; did you mean 'train.lr'? see params.yaml"),
        ("resamples: 1", "unknown key 'resamples'; did you mean 'evaluate.resamples'? see"),
        ("train: {rate: 1}", "unknown key 'train.rate'"),
        ("train: {lr: fast}", "train.lr: Input should be a valid number (got 'fast')"),
        ("train: {lr: 5 m}", "train.lr: Input should be a valid number (got '5 m')"),
        ("train: {lr: .inf}", "train.lr: Input should be a finite number"),
        ("train: {lr: -1}", "train.lr: Input should be greater than 0 (got -1)"),
        ("train: {steps: true}", "train.steps: Input should be a valid integer (got True)"),
        ("train: {steps: '7'}", "train.steps: Input should be a valid integer (got '7')"),
        ("train: {steps: 2.5}", "train.steps: Input should be a valid integer (got 2.5)"),
        ("train: {lora: {enabled: 1}}", "train.lora.enabled: Input should be a valid boolean"),
        ("train: {method: best}", "train.method: Input should be 'sft', 'dpo', 'grpo'"),
        ("train: {method: grpo, group_size: 1}", "train: group_size=1; GRPO needs at least 2"),
        (
            "train: {method: ppo, advantage: rloo, group_size: 1}",
            "train: group_size=1; advantage=rloo needs at least 2",
        ),
        ("train: {advantage: rloo}", "train: advantage=rloo; method=sft has no advantages"),
        (
            "train: {method: grpo, advantage: mean}",
            "train.advantage=mean is unknown; known rules are dr_grpo",
        ),
        ("train: {ppo: {clip: 1}}", "train.ppo.clip: Input should be less than 1 (got 1)"),
        ("train: {ppo: {gamma: 0}}", "train.ppo.gamma: Input should be greater than 0 (got 0)"),
        ("train: {ppo: {epochs: 4}}", "unknown key 'train.ppo.epochs'"),
        (
            "train: {method: ppo, batch_size: 2, group_size: 1, ppo: {minibatches: 3}}",
            "train: ppo.minibatches=3; a draw has 2 paths",
        ),
        (
            "train: {method: dpo, batch_size: 24, micro_batch_size: 24, warm_start_batch_size: 64}",
            "train: micro_batch_size=24 does not divide a batch of 64",
        ),
        (
            "serve: {engine: vlm}",
            "serve.engine: Input should be 'embedded', 'vllm', 'sglang' or 'url' (got 'vlm')",
        ),
        ("serve: {engine: url}", "serve: url=null; engine=url needs the address"),
        ("evaluate: {num_paths: 7}", "num_paths=7; pass@8 needs at least 8"),
        ("build: {min_pass_rate: 0.5, max_pass_rate: 0.5}", "min_pass_rate=0.5 is not below"),
        ("prepare: {countdown: {low: 9, high: 3}}", "low=9 is above high=3"),
        ("classmate: {train: {advantage: foo}}", "foo"),
        ("pacore: {train: {advantage: foo}}", "foo"),
        (
            "apr: {sft: {step_tokens: 128}}",
            "apr: sft.step_tokens=128 is below model.window=256",
        ),
        ("train: 3", "train: Input should be an object (got 3)"),
        ("- 1", "expected sections, got list"),
        ("seed: 1\nseed: 2", 'line 2: found duplicate key "seed"'),
        ("a: 1\ntrain:\n  lr: 1\n  lr: 2", 'line 4: found duplicate key "lr"'),
        ("train: [", "not YAML"),
    ],
)
def test_bad_content_is_one_line_with_file_and_key(
    tmp_path: pathlib.Path, content: str, complaint: str
):
    """Every error is one line that names the file, the key and the value."""
    message = error_of(tmp_path, content)
    assert message.startswith(f"{tmp_path}/params.yaml: ")
    assert complaint in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("train.lr", "expected KEY=VALUE, as in train.lr=1e-4"),
        ("=1", "expected KEY=VALUE"),
        ("train.lr=[", "not YAML"),
        ("train={lr: 1, lr: 2}", 'found duplicate key "lr"'),
        ("train.lr.x=1", "train.lr: Input should be a valid number"),
        ("train.rate=1", "unknown key 'train.rate'"),
    ],
)
def test_bad_override_is_named(tmp_path: pathlib.Path, override: str, complaint: str):
    """An override that cannot be used is quoted in the error."""
    with pytest.raises(BadInputError) as caught:
        load_params(write(tmp_path, ""), overrides=[override])
    assert f"--set {override}" in str(caught.value)
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("former", "present"), [pair for pair in RENAMED.items() if "=" not in pair[0]]
)
def test_renamed_key_is_refused_with_its_new_name(
    tmp_path: pathlib.Path, former: str, present: str
):
    """Former keys are refused in a file and after --set; the present name is a key of the params."""
    *sections, last = former.split(".")
    content = "".join(f"{section}: {{" for section in sections) + f"{last}: 1" + "}" * len(sections)
    refused = f"the key '{former}' is now '{present}'; rename it"
    assert error_of(tmp_path, content) == f"{tmp_path}/params.yaml: {refused}"
    with pytest.raises(BadInputError) as caught:
        load_params(write(tmp_path, ""), overrides=[f"{former}=1"])
    assert str(caught.value) == f"--set {former}=1: {refused}"
    assert caught.value.exit_code == 2
    value: object = Params()
    for name in present.split("."):
        value = getattr(value, name)


def test_renamed_value_is_refused_with_its_new_name(tmp_path: pathlib.Path):
    """Another value of the key is none."""
    message = error_of(tmp_path, "classmate: {bonus: blind}")
    assert message.endswith("'classmate.bonus=blind' is now 'classmate.bonus=hashed'; rename it")
    assert load_params(overrides=["classmate.bonus=hashed"]).classmate.bonus == "hashed"


def test_key_of_a_renamed_section_names_the_section(tmp_path: pathlib.Path):
    """`compute.tree.exploration` is refused by way of its section."""
    message = error_of(tmp_path, "compute: {tree: {exploration: 1.0}}")
    assert message.endswith("the key 'compute' is now 'test_time'; rename it")


def test_missing_file_and_profile_are_named(tmp_path: pathlib.Path):
    """The error says which file is missing, or which profiles there are."""
    with pytest.raises(BadInputError, match=r"absent\.yaml: cannot be read \(No such file"):
        load_params(tmp_path / "absent.yaml")
    with pytest.raises(
        BadInputError, match=r"--profile absent: no such profile; there are .*smoke"
    ):
        load_params(profile="absent")
    with pytest.raises(
        BadInputError, match=r"--profile smok: .*; did you mean 'smoke'\? there are"
    ):
        load_params(profile="smok")


def test_undecodable_file_is_named(tmp_path: pathlib.Path):
    """A file that is not UTF-8 is refused with the place of the first bad byte."""
    (tmp_path / "params.yaml").write_bytes(b"seed: \xff")
    with pytest.raises(BadInputError, match=r"params\.yaml: not UTF-8 .* at byte 6"):
        load_params(tmp_path / "params.yaml")


def test_params_cannot_be_changed():
    """Params are values: a stage cannot alter them for the next."""
    with pytest.raises(ValueError, match="frozen"):
        Params().seed = 8  # type: ignore[misc]


def test_environment_reads_one_variable(monkeypatch: pytest.MonkeyPatch):
    """A variable that is set is read, one that is not is None."""
    monkeypatch.setenv("REASONLOOP_TEST", "here")
    monkeypatch.delenv("REASONLOOP_ABSENT", raising=False)
    assert environment("REASONLOOP_TEST") == "here"
    assert environment("REASONLOOP_ABSENT") is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a:\n  b: null # why\nc: 1\n", "a:\n  b: data/x # why\nc: 1\n"),
        ("a: {b: 'old', c: 1}\n", "a: {b: data/x, c: 1}\n"),
        ("a:\n  b:\nc: 1\n", "a:\n  b: data/x\nc: 1\n"),
        ("a:\n  b: # why\nc: 1\n", "a:\n  b: data/x # why\nc: 1\n"),
        ("b: x\na:\n  c:\n    b: x\n  b: [1,\n    2]\n", "b: x\na:\n  c:\n    b: x\n  b: data/x\n"),
    ],
)
def test_one_value_is_set_in_a_file(tmp_path: pathlib.Path, text: str, written: str):
    """Nothing but the value of that key changes."""
    path = tmp_path / "params.yaml"
    path.write_text(text, "utf-8")
    set_param(path, "a.b", "data/x")
    assert path.read_text("utf-8") == written


@pytest.mark.parametrize(
    "value", ["null", "7", "1e-4", "yes", "a: b", "it's # no comment", "x" * 200, "é"]
)
def test_a_set_value_is_read_as_that_text(tmp_path: pathlib.Path, value: str):
    """Also text that would be a number, a mapping or a comment."""
    path = tmp_path / "params.yaml"
    path.write_text("prepare: {source: null}\n", "utf-8")
    set_param(path, "prepare.source", value)
    assert load_params(path).prepare.source == value


@pytest.mark.parametrize("text", ["a: 1\n", "{}\n", "", "a:\n  c: 1\n"])
def test_a_key_that_is_not_in_the_file_is_not_set(tmp_path: pathlib.Path, text: str):
    """The message names file and key, and the file is as before."""
    path = tmp_path / "params.yaml"
    path.write_text(text, "utf-8")
    with pytest.raises(BadInputError, match=r"params\.yaml: has no key 'a\.b'; add it"):
        set_param(path, "a.b", "x")
    assert path.read_text("utf-8") == text


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("serve: {engine: url, url: 'http://me:s3cr3t@host/v1'}", "serve: url holds a user or"),
        ("serve: {api_key_env: sk-s3cr3t}", "serve: api_key_env is no name of a variable"),
        ("serve: {options: ['--api-key=s3cr3t']}", "serve: options: --api-key is a secret"),
        ("serve: {options: [--hf_token, s3cr3t]}", "serve: options: --hf-token is a secret"),
    ],
)
def test_secrets_are_refused_and_not_shown(tmp_path: pathlib.Path, content: str, complaint: str):
    """Params are recorded; the message names the key and not the value."""
    message = error_of(tmp_path, content)
    assert complaint in message
    assert "s3cr3t" not in message
