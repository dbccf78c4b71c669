"""A task of one's own with THREADS: a language model is trained and evaluated on it, by its grammar and verifier."""

import pathlib

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params_file import load_params
from pipeline_lib.sampling.prompts import instruction
from pipeline_lib.systems.apr import rl
from pipeline_lib.systems.apr.evaluation.evaluate import evaluate_models
from pipeline_lib.systems.apr.evaluation.plans import EvaluationSetting, make_plans
from pipeline_lib.systems.apr.evaluation.problem_source import read_task
from pipeline_lib.systems.apr.words.grammars import PointerGrammar
from pipeline_lib.systems.apr.words.texts import ANSWER

TASK = pathlib.Path(__file__).parents[3] / "own" / "threads.py"
SIZES = [f"prepare.{split}_problems=2" for split in ("train", "test", "bootstrap")]


def params():
    steps = ["apr.rl.steps=1", "apr.rl.prompts=1", "apr.rl.group_size=2", "apr.rl.updates=1"]
    return load_params(overrides=[f"prepare.dataset={TASK}", *SIZES, *steps])


def test_a_language_model_without_a_record_is_trained_and_evaluated(base, tmp_path, monkeypatch):
    """Prompts are those of the task, without our words about tags; its own grammar reads the spawns."""
    monkeypatch.setattr(rl, "_MOST_TOKENS", 8)
    found, trained = params(), tmp_path / "trained"
    assert found.apr.rl.grammar == f"{TASK}:THREADS"
    source = read_task(found, "test")
    setting = EvaluationSetting(
        children=(),
        tokens=(),
        temperatures=(0.0,),
        samples=1,
        first_success=False,
        serve=None,
        evaluate=EvaluateParams(resamples=100),
        verify=found.verify,
        grammar=found.apr.rl.grammar,
        grammar_digest=found.apr.rl.code_digest,
        max_tokens=8,
        seed=1,
    )
    [plan] = make_plans({"base": base}, source, setting)
    task, question = plan.model.task, instruction(source.problems[0])
    assert question.startswith("Name parts in tags.\ntest\n(1) ")
    assert task.prompt(source.problems[0], "") == question + ANSWER
    assert type(task.grammar).__name__ == PointerGrammar.__name__
    spawn = task.grammar.find_spawn(f"{question}{ANSWER}<spawn>\n2\n</spawn>")
    assert [one.prompt for one in spawn.children] == [f"{question}\nPart (2){ANSWER}"]
    manifest = rl.train_by_rl(
        base, read_task(found, "train"), trained, found.apr.rl, seed=1, verify=found.verify
    )
    assert manifest.counts["drawn_tokens"] > 0
    models = {"base": base, "trained": trained}
    drawn = evaluate_models(models, source, tmp_path / "reports", setting)
    assert {one.setting.name for one in drawn} == {*models}


def test_the_code_of_threads_is_in_the_params(tmp_path):
    """So that another grammar trains and draws anew."""
    text = TASK.read_text("utf-8")
    digests = set()
    for old, new in (("", ""), ("whole_question=True", ""), ("2 * number + 1", "2 * number")):
        (tmp_path / "task.py").write_text(text.replace(old, new), "utf-8")
        found = load_params(overrides=[f"prepare.dataset={tmp_path}/task.py"])
        digests.add(found.apr.rl.code_digest)
    assert len(digests) == 2
    assert None not in digests
