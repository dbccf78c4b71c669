"""`reasonloop power`: how large an evaluation must be to find a gain."""

import itertools
import json
import pathlib
from dataclasses import asdict, replace
from typing import Annotated

from cyclopts import Parameter, validators

from flows.cli.options import AT_LEAST_ZERO, read_list
from flows.cli.tables import print_table
from flows.run.terminal import console, say
from pipeline_lib.errors import BadInputError

_CHANCES = ("power_over_problems", "power_over_seeds")
_FRACTION = validators.Number(gte=0, lte=1)
_Inner = Annotated[float, Parameter(validator=validators.Number(gt=0, lt=1))]
_Points = Annotated[float, Parameter(validator=AT_LEAST_ZERO)]


def power(  # noqa: PLR0913 - one argument per option
    *,
    difference: Annotated[_Points, Parameter(help="The gain, in points.")],
    accuracy: Annotated[float | None, Parameter(help="Of the reference, in percent.")] = None,
    correlation: Annotated[
        float, Parameter(help="Of both chances, over problems.", validator=_FRACTION)
    ] = 0.9,
    between: Annotated[
        float, Parameter(help="Share of a path's variance between problems.", validator=_FRACTION)
    ] = 0.4,
    seed_spread: Annotated[_Points, Parameter(help="Of the gain over trainings, in points.")] = 1.0,
    recorded: Annotated[
        tuple[pathlib.Path, ...],
        Parameter(negative="", help="Folder like reports/loop; repeatable, one a seed."),
    ] = (),
    problems: Annotated[str | None, Parameter(help="Default: as many as needed.")] = None,
    paths: Annotated[str, Parameter(help="Per problem.")] = "1,4,16",
    seeds: Annotated[str, Parameter(help="Trainings.")] = "1",
    target: Annotated[_Inner, Parameter(name="--power")] = 0.8,
    level: Annotated[_Inner, Parameter(help="Of intervals.")] = 0.95,
    as_json: Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")] = False,
) -> None:
    """Show how many problems, paths and seeds find a gain, with the intervals and tests of an evaluation.

    One seed compares two given policies; several compare two ways to train, on problems of each seed's own, and the
    interval over seeds must show the gain, too. The spread of the gain is that of recorded evaluations, or follows from `--accuracy`, `--correlation` and
    `--between`; `--seed-spread` is used where fewer than two evaluations are recorded.

    **Examples:**

        reasonloop power --difference 3 --accuracy 60
        reasonloop power --difference 3 --accuracy 60 --problems 500 --paths 1,8 --seeds 1,3
        reasonloop power --difference 2 --recorded seed-7/reports/loop --recorded seed-8/reports/loop
    """
    if (accuracy is None) != bool(recorded):
        raise BadInputError("give either --accuracy, in percent, or --recorded FOLDER")
    from pipeline_lib.study import power as study  # noqa: PLC0415 - scipy is slow
    from pipeline_lib.study.pages.tables import Table  # noqa: PLC0415 - as above
    from pipeline_lib.study.pages.wording import EMPTY, count, percent, words  # noqa: PLC0415
    from pipeline_lib.study.stored import read_evaluation  # noqa: PLC0415 - as above

    gain = difference / 100
    if accuracy is None:
        spread = study.recorded_spread([read_evaluation(folder) for folder in recorded])
    else:
        share = {"share": between, "correlation": correlation}
        spread = study.assumed_spread(accuracy / 100, gain, **share)
    if len(recorded) < 2:
        spread = replace(spread, seeds=(seed_spread / 100) ** 2)
    rows: list[dict[str, float | None]] = []
    for num_paths, num_seeds, given in itertools.product(
        read_list("paths", paths, int, low=1),
        read_list("seeds", seeds, int, low=1),
        read_list("problems", problems, int, low=2) or (None,),
    ):
        size = {"paths": num_paths, "seeds": num_seeds}
        number = given or study.fewest_problems(gain, spread, **size, level=level, power=target)
        found = number and study.powers(gain, spread, problems=number, **size, level=level)
        chances = zip(_CHANCES, found or (None, None), strict=True)
        rows.append({**size, "problems": number, **dict(chances)})
    if as_json:
        settings = {"gain": gain, "level": level, "power": target, "spread": asdict(spread)}
        console.print_json(json.dumps({**settings, "plans": rows}))
        return
    cells = [
        tuple(
            EMPTY if one is None else (percent if name in _CHANCES else count)(one)
            for name, one in row.items()
        )
        for row in rows
    ]
    caption = f"Chance to find a gain of {difference:g} points, {100 * level:g} % intervals"
    print_table(Table(caption=caption, columns=tuple(map(words, rows[0])), rows=tuple(cells)))
    deviations = [100 * one**0.5 for one in (spread.between, spread.within, spread.seeds)]
    parts = "{:.1f} of q - p over problems, {:.1f} of a path of each, {:.1f} over trainings"
    say(f"standard deviations of the difference in points: {parts.format(*deviations)}")
    if any(row["problems"] is None for row in rows):
        say(f"{EMPTY}: no number of problems suffices; take more seeds")
