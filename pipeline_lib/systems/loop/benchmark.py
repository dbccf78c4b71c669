"""pass@k of one model on whole data sets, in a folder of its own."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict

from pipeline_lib.engines.known.table import check_installed, engine_named
from pipeline_lib.engines.running_engine import check_model
from pipeline_lib.errors import BadInputError
from pipeline_lib.problems.splits import evaluation_problems
from pipeline_lib.problems.trained import seen_in_training, trained_on
from pipeline_lib.study.pages.page import REPORT_NAME, Page, write_page
from pipeline_lib.study.pages.wording import score
from pipeline_lib.study.policies import PolicyScores, score_policy
from pipeline_lib.study.provenance import provenance
from pipeline_lib.study.study import Arm, Study, make_study, write_study
from pipeline_lib.systems.loop.draw import Draw
from pipeline_lib.systems.loop.evaluated_sets import problems_of, read_problems, write_sets
from pipeline_lib.systems.loop.reporting.examples import first_examples
from pipeline_lib.systems.loop.stages import LOOP
from pipeline_lib.systems.stage import Run, System
from pipeline_lib.train.rows.groups import read_groups

NAME = "benchmark"
BENCHMARK = System(
    name=NAME,
    stages=(LOOP.stage("evaluate"),),
    labels=lambda params: (NAME, *(one.dataset for one in params.evaluate.sets)),
    preflight=f"{__name__}:check",
)
_POLICY = "policy"


def check(run: Run, *, draws: bool = True) -> None:
    """Check that the data sets of ``evaluate.sets`` can be used, and with ``draws`` that the engine is installed.

    Raises:
        BadInputError: one of them cannot, or there is none.
    """
    if draws:
        check_installed(run.params.serve)
    if not run.params.evaluate.sets:
        raise BadInputError("evaluate.sets is empty; name a data set, as in --dataset aime24")
    for one in run.params.evaluate.sets:
        evaluation_problems(one, seed=run.params.seed, gold_problem=lambda _: None)


def plan(run: Run, model: str) -> list[Draw]:
    """Write the tables of the data sets, and return the draw of each.

    Args:
        run: params and folder.
        model: a folder or hub id; at a URL its name there.

    Raises:
        BadInputError: a data set or the model cannot be used.
    """
    params = run.params
    if not engine_named(params.serve.engine).is_external:
        check_model(model)
    write_sets(run)
    sampling = {"num_paths": params.evaluate.num_paths, "shots": 0}
    return [
        Draw(
            run=run,
            name=f"{NAME}-{one.dataset}",
            seed_name="evaluate",
            problems=problems_of(run, one.dataset),
            model=model,
            folders=run.workspace.evaluation(f"{one.dataset}/{_POLICY}"),
            sample=params.sample.model_copy(update=sampling),
            stage="evaluate",
        )
        for one in params.evaluate.sets
    ]


def write_benchmark(draws: list[Draw]) -> Study:
    """Write metrics.json, report.html and the tables of the study of finished draws to the folder of their run."""
    run, model = draws[0].run, draws[0].model
    params, names = run.params, [one.dataset for one in run.params.evaluate.sets]
    problems = {name: read_problems(run, name) for name in names}
    asked = [one for own in problems.values() for one in own]
    arm = Arm(base=_POLICY, seen=seen_in_training(model, asked))
    scores: dict[str, PolicyScores] = {}
    examples = []
    for name, draw in zip(names, draws, strict=True):
        groups = read_groups(draw.problems, draw.folders.paths, draw.folders.verdicts)
        scores[name] = score_policy(arm, groups, params.evaluate, set_name=name)
        limit = params.report.num_examples // len(names)
        examples += first_examples(_POLICY, groups, limit=max(1, limit))
    series = [one for found in scores.values() for one in found.series]
    study = make_study(
        NAME,
        series,
        (),
        evaluate=params.evaluate,
        seed=params.seed,
        provenance={**provenance(params), "model": model},
        left_out={
            f"{name}: too few scored paths": one.counts.left_out for name, one in scores.items()
        },
        compute={"policies": {name: asdict(one.counts) for name, one in scores.items()}},
    )
    claims = _claims(study, {name: len(own) for name, own in problems.items()})
    study = study.with_claims((*claims, *trained_on({model: model}, asked)))
    write_study(run.root, study, series, (), further=problems)
    write_page(run.root / REPORT_NAME, study, Page(title=f"pass@k of {model}", examples=examples))
    return study


def _claims(study: Study, asked: Mapping[str, int]) -> Iterator[str]:
    for one in study.points:
        if (one.measure, one.subset) == ("pass@1", "all"):
            yield f"pass@1 on {one.set}: {score(one.interval)}, {one.n} of {asked[one.set]} problems scored."
