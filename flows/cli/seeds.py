"""A whole system once a seed, in folders of one workspace."""

import pathlib
from collections.abc import Callable, Sequence

from flows.cli.options import ParamsOptions, SeedOptions, WorkspaceOptions
from flows.cli.tables import print_claims, print_table
from flows.run.terminal import say
from pipeline_lib.params.whole import Params

_PREFIX = "seed-"


def run_each(
    system: str,
    options: WorkspaceOptions,
    params: ParamsOptions,
    seeds: SeedOptions,
    run: Callable[[pathlib.Path, Params], None],
) -> None:
    """Run in the workspace; with `--seeds` once for each, in folders of it, and show them together.

    Args:
        system: its name.
        options: of the command.
        params: of the command.
        seeds: of the command.
        run: does all for a workspace and params, and prints what it found.

    Raises:
        BadInputError: the options cannot be used together; nothing was run.
    """
    root, numbers = options.workspace.resolve(), seeds.numbers
    if not numbers:
        run(root, params.load({**options.given, "seed": seeds.seed}))
        return
    loaded = {number: params.load({**options.given, "seed": number}) for number in numbers}
    for number, one in loaded.items():
        say(f"\nseed {number}: {_folder(root, number)}")
        run(_folder(root, number), one)
    show_seeds(root, system, [_folder(root, number) for number in numbers], loaded[numbers[0]])


def _folder(root: pathlib.Path, number: int) -> pathlib.Path:
    return root / f"{_PREFIX}{number}"


def seed_folders(root: pathlib.Path) -> list[pathlib.Path]:
    """The folders of seeds in a workspace, by number."""
    found = {path.name.removeprefix(_PREFIX): path for path in root.glob(f"{_PREFIX}*")}
    return [found[number] for number in sorted(filter(str.isdecimal, found), key=int)]


def show_all_seeds(root: pathlib.Path, params: Params) -> None:
    """Show every system that was run with several seeds in a workspace."""
    from pipeline_lib.study.stored import evaluation_folders  # noqa: PLC0415 - scipy is slow

    found: dict[str, list[pathlib.Path]] = {}
    for folder in seed_folders(root):
        for report in evaluation_folders(folder):
            found.setdefault(report.name, []).append(folder)
    for system, folders in found.items():
        show_seeds(root, system, folders, params)


def show_seeds(
    root: pathlib.Path, system: str, folders: Sequence[pathlib.Path], params: Params
) -> None:
    """Print and write the differences of each seed, their mean and its intervals.

    Raises:
        BadInputError: a folder has no evaluation of the system.
    """
    from pipeline_lib.study import seeds  # noqa: PLC0415 - scipy is slow
    from pipeline_lib.study.pages.page import REPORT_NAME, study_tables  # noqa: PLC0415
    from pipeline_lib.study.stored import read_evaluation  # noqa: PLC0415

    evaluations = [read_evaluation(folder / "reports" / system) for folder in folders]
    found = seeds.study_seeds(evaluations, params.evaluate)
    if found is None:
        say(f"{system}: no seed has a difference to a control")
        return
    target = root / "reports" / system / seeds.SEEDS_NAME
    study = seeds.joint_study(found, evaluations)
    seeds.write_seeds(target, found, study)
    for table in study_tables(study):
        print_table(table)
    print_claims(study)
    say(f"seeds:      {target / REPORT_NAME}")
