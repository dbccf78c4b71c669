"""`reasonloop export model`."""

import pytest
from transformers import AutoModelForCausalLM

from flows.cli.app import main


def test_a_policy_is_exported_in_half_precision(finished_run, tmp_path, capsys):
    """The folder loads by the auto classes, in the requested precision."""
    out = tmp_path / "out"
    policy = finished_run / "models" / "policy"
    with pytest.raises(SystemExit) as stopped:
        main(["export", "model", str(policy), "--output", str(out), "--dtype", "bfloat16"])
    assert stopped.value.code == 0
    assert "weights in bfloat16, 0 adapters merged" in capsys.readouterr().out
    before, after = (
        sum(weight.nbytes for weight in model.parameters())
        for model in (AutoModelForCausalLM.from_pretrained(p, dtype="auto") for p in (policy, out))
    )
    assert after == before / 2


def test_a_folder_without_an_adapter_is_one_line(finished_run, tmp_path, capsys):
    """Exit code 2; the line names the folder and a valid example."""
    base = str(finished_run / "models" / "base")
    with pytest.raises(SystemExit) as stopped:
        main(["export", "model", base, "--adapter", base, "--output", str(tmp_path / "out")])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no adapter_config.json" in error
