"""`reasonloop export model`, as a user calls it."""

import pytest
from transformers import AutoModelForCausalLM

from flows.cli.app import main


def test_a_policy_goes_out_in_half_the_bytes(finished_run, tmp_path, capsys):
    """The folder loads by the auto classes, in the precision that was asked for."""
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


def test_a_folder_that_is_no_adapter_is_one_line(finished_run, tmp_path, capsys):
    """Exit code 2; the line names the folder and shows one that would do."""
    base = str(finished_run / "models" / "base")
    with pytest.raises(SystemExit) as stopped:
        main(["export", "model", base, "--adapter", base, "--output", str(tmp_path / "out")])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "no adapter_config.json" in error
