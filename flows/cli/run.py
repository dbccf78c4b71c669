"""`reasonloop run`, `apr run`, `pacore run`, `classmate run`, `prr run`; `stage` and `report`."""

import pathlib
from collections.abc import Callable, Sequence

from flows.cli.options import (
    DEFAULT_PARAMS,
    DEFAULT_RUN,
    DEFAULT_SEEDS,
    DEFAULT_WORKSPACE,
    ParamsOptions,
    RunOptions,
    SeedOptions,
    StageName,
    WorkspaceOptions,
)
from flows.cli.orchestrated import orchestrated
from flows.cli.tables import print_claims, print_evaluation, print_table
from flows.run.terminal import say
from pipeline_lib.params.whole import Params
from pipeline_lib.systems.table import STAGES, SYSTEM_OF, SYSTEMS

_PREFIX = "seed-"


def _command(system: str) -> Callable[..., None]:
    if any(stage.draws for stage in SYSTEMS[system].stages):

        def run(
            *,
            options: RunOptions = DEFAULT_RUN,
            params: ParamsOptions = DEFAULT_PARAMS,
            seeds: SeedOptions = DEFAULT_SEEDS,
        ) -> None:
            run_each(system, options, params, seeds)

        return run

    def run_without_engine(
        *,
        options: WorkspaceOptions = DEFAULT_WORKSPACE,
        params: ParamsOptions = DEFAULT_PARAMS,
        seeds: SeedOptions = DEFAULT_SEEDS,
    ) -> None:
        run_each(system, options, params, seeds)

    return run_without_engine


def __getattr__(system: str) -> Callable[..., None]:
    """The command that runs all stages of a system; its help is the docstring of the system's stages."""
    if system not in SYSTEMS:
        raise AttributeError(system)
    return _command(system)


def stage(
    name: StageName,
    /,
    *,
    options: RunOptions = DEFAULT_RUN,
    params: ParamsOptions = DEFAULT_PARAMS,
) -> None:
    """Run one stage, as dvc.yaml does.

    **Example:**

        reasonloop stage sample
    """
    loaded, root = params.load(options.given), options.workspace.resolve()
    with orchestrated(SYSTEM_OF[name], root, loaded, draws=STAGES[name].draws) as run:
        from flows.system import run_stage  # noqa: PLC0415 - see `orchestrated`

        run_stage(name, run)


def report(*, options: RunOptions = DEFAULT_RUN, params: ParamsOptions = DEFAULT_PARAMS) -> None:
    """Rewrite metrics.json, plots and report.html of a finished run.

    In a workspace of several seeds show the differences of each, their mean, and intervals over problems and seeds.

    **Example:**

        reasonloop report --workspace /tmp/trial
    """
    from pipeline_lib.study.stored import evaluation_folders  # noqa: PLC0415 - pyarrow is slow

    root = options.workspace.resolve()
    numbers = [path.name.removeprefix(_PREFIX) for path in root.glob(f"{_PREFIX}*")]
    folders = [_folder(root, number) for number in sorted(filter(str.isdecimal, numbers), key=int)]
    found: dict[str, list[pathlib.Path]] = {}
    for folder, place in ((one, place) for one in folders for place in evaluation_folders(one)):
        found.setdefault(place.name, []).append(folder)
    for system, own in found.items():
        _show_seeds(root, system, own, params.load(options.given))
    if not folders or (root / "data").is_dir():
        stage("report", options=options, params=params)


def run_system(system: str, root: pathlib.Path, params: Params) -> None:
    """Run all stages of a system in the workspace ``root``, and print what it found."""
    with orchestrated(SYSTEMS[system], root, params) as run:
        # See `orchestrated`.
        if system == "loop":
            from flows.post_training import run_post_training  # noqa: PLC0415

            run_post_training(run)
        else:
            from flows import system as any_system  # noqa: PLC0415

            any_system.run_system(SYSTEMS[system], run)
    folder = root / "reports"
    if system != "loop":
        folder /= system
    print_evaluation(folder, model="synthesizer" if system == "pacore" else None)


def run_each(
    system: str,
    options: WorkspaceOptions,
    params: ParamsOptions,
    seeds: SeedOptions,
    run: Callable[[str, pathlib.Path, Params], None] = run_system,
) -> None:
    """Run a system in the workspace; with `--seeds` once for each, in folders of it, and show them together.

    Raises:
        BadInputError: the options cannot be used together; nothing was run.
    """
    root, numbers = options.workspace.resolve(), seeds.numbers
    if not numbers:
        run(system, root, params.load({**options.given, "seed": seeds.seed}))
        return
    loaded = {number: params.load({**options.given, "seed": number}) for number in numbers}
    for number, one in loaded.items():
        say(f"\nseed {number}: {_folder(root, number)}")
        run(system, _folder(root, number), one)
    _show_seeds(root, system, [_folder(root, number) for number in numbers], loaded[numbers[0]])


def _folder(root: pathlib.Path, number: int | str) -> pathlib.Path:
    return root / f"{_PREFIX}{number}"


def _show_seeds(
    root: pathlib.Path, system: str, folders: Sequence[pathlib.Path], params: Params
) -> None:
    """Print and write the differences of each seed, their mean and its intervals."""
    from pipeline_lib.study import seeds  # noqa: PLC0415 - scipy is slow
    from pipeline_lib.study.pages.page import REPORT_NAME, study_tables  # noqa: PLC0415
    from pipeline_lib.study.stored import read_evaluation  # noqa: PLC0415

    evaluations = [read_evaluation(folder / "reports" / system) for folder in folders]
    found = seeds.study_seeds(evaluations, params.evaluate)
    if found is None:
        say(f"{system}: no seed has a difference to a control")
        return
    target = root / "reports" / system / seeds.SEEDS_NAME
    study = seeds.write_seeds(target, found)
    for table in study_tables(study):
        print_table(table)
    print_claims(study)
    say(f"seeds:      {target / REPORT_NAME}")
