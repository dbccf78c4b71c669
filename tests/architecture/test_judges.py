"""Judges are imported by name, yet belong to the code of the stages that use them."""

from benchmarks.lib.repository import REPOSITORY
from pipeline_lib.kinds.table import gold_check_modules, judge_modules
from pipeline_lib.store.keys import NAMED_IMPORTS, import_closure
from pipeline_lib.systems.table import STAGES


def test_imports_by_name_are_in_the_table():
    """A module that resolves names is listed with its imports, so that stage keys cover them."""
    resolving = {
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for path in (REPOSITORY / "pipeline_lib").rglob("*.py")
        if "resolve_name(" in path.read_text("utf-8")
    }
    frame = "pipeline_lib.systems.stage"  # in no stage's code, as the next test asserts
    assert resolving == {frame, *NAMED_IMPORTS}


def test_the_frame_is_in_no_stage_s_code():
    """Params of other stages, which it knows, change no result."""
    for stage in STAGES.values():
        for module in stage.modules:
            assert "pipeline_lib.systems.stage" not in import_closure(module), module


def test_stages_that_verify_depend_on_judges_and_others_do_not():
    """A changed verifier invalidates verification and splits, not sampling."""
    using = {"judges": set(), "gold checks": set()}
    for stage in STAGES.values():
        closure = {name for module in stage.modules for name in import_closure(module)}
        if set(judge_modules()) <= closure:
            using["judges"].add(stage.name)
        if set(gold_check_modules()) <= closure:
            using["gold checks"].add(stage.name)
    assert using["judges"] == {
        *("verify", "train", "evaluate"),
        *("pacore-data", "pacore-train", "pacore-control", "pacore-evaluate"),
        *("apr-conditions", "apr-rl", "apr-serial-rl", "apr-terse-rl", "apr-evaluate"),
        *("classmate-train", "classmate-plain", "classmate-evaluate"),
    }
    assert using["gold checks"] == {"prepare", "classmate-peers", "apr-data"} | using["judges"]


def test_trainings_and_data_do_not_depend_on_the_study():
    """A changed page or statistic starts no training."""
    using = {
        stage.name
        for stage in STAGES.values()
        for module in stage.modules
        if any(name.startswith("pipeline_lib.study") for name in import_closure(module))
    }
    assert using == {
        *("evaluate", "report", "pacore-evaluate", "prr-evaluate", "classmate-evaluate"),
        *("apr-conditions", "apr-evaluate"),
    }


def test_sampling_does_not_depend_on_verification():
    """Nor do kinds and records, which sampling imports."""
    closure = import_closure("pipeline_lib.systems.loop.sample")
    assert {"pipeline_lib.kinds.table", "pipeline_lib.records"} <= set(closure)
    assert not [name for name in closure if name.startswith("pipeline_lib.verify")]
