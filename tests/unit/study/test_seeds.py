"""One system with several seeds, on hand-made evaluations."""

import numpy as np
import pytest

from flows.cli.app import main
from flows.cli.options import ParamsOptions, SeedOptions, WorkspaceOptions
from flows.cli.run import run_each
from pipeline_lib.errors import BadInputError
from pipeline_lib.seeding import child_seed
from pipeline_lib.store.files import read_json, write_json
from pipeline_lib.study.seeds import compared_values, study_seeds, write_seeds
from pipeline_lib.study.statistics.intervals import paired_difference, t_interval
from pipeline_lib.study.stored import read_evaluation
from tests.unit.study.toy_evaluations import EVALUATE, ToyArm, right, write_evaluation

SEEN = {"peers": [], "plain": ["q0", "q1"]}
SETTINGS = ParamsOptions(overrides=("evaluate.resamples=200",))


def write_seed(workspace, seed, *, gained, start=0, measure="accuracy"):
    """Twenty problems: the plain model has the first two right, peers ``gained`` more."""
    return write_evaluation(
        workspace,
        "classmate",
        ToyArm(base="peers", values=right(2 + gained, of=20, start=start)),
        ToyArm(base="plain", values=right(2, of=20, start=start), measure=measure),
        seed=seed,
    )


def seeds_of(*folders):
    return study_seeds([read_evaluation(folder) for folder in folders], EVALUATE)


def claims_of(*folders):
    return write_seeds(folders[0].parent / "seeds", seeds_of(*folders)).claims


def test_mean_and_both_intervals_by_hand(tmp_path):
    """Gains of 4, 6 and 8 of 20 problems; a problem that two seeds of three have counts by the mean of two."""
    found = seeds_of(
        write_seed(tmp_path / "a", 1, gained=4),
        write_seed(tmp_path / "b", 2, gained=6),
        write_seed(tmp_path / "c", 3, gained=8, start=10),
    )
    assert [round(one.value, 9) for one in found.differences.values()] == [0.2, 0.3, 0.4]
    assert found.mean == pytest.approx(0.3)
    # t of 2 degrees of freedom at 95 %: 4.3027; standard error 0.1 / 3 ** 0.5
    assert found.over_seeds.high == pytest.approx(0.3 + 4.3027 * 0.1 / 3**0.5, abs=1e-5)
    assert found.num_problems == 30
    peers, plain = np.zeros(30), np.zeros(30)
    peers[:6], peers[6:8], peers[10:12], peers[12:20] = 1, 0.5, 1 / 3, 1 / 3
    plain[:2], plain[10:12] = 1, 1 / 3
    expected = paired_difference(plain, peers, EVALUATE, seed=child_seed(1, "seeds", "problems"))
    assert found.over_problems == expected


def test_one_seed_has_no_interval_over_seeds(tmp_path):
    folder = write_seed(tmp_path, 1, gained=4)
    found = seeds_of(folder)
    assert found.over_seeds is None
    assert found.row()["over_seeds"] is None
    assert found.over_problems.interval.value == pytest.approx(0.2)
    assert claims_of(folder)[-1] == "One seed does not show how much trainings vary."


def test_the_interval_over_seeds_stays_within_the_possible():
    assert t_interval([0.1, 0.9], EVALUATE).low == -1.0


def test_a_reference_of_another_measure_is_found_by_its_mean(tmp_path):
    """The difference names the candidate's measure, which the plain arm has not. Another run's values do not match."""
    folder = write_seed(tmp_path / "a", 1, gained=4, measure="maj@4")
    evaluation = read_evaluation(folder)
    values = compared_values(evaluation, evaluation.study.headline)
    assert [sum(pair) for pair in zip(*values.values(), strict=True)] == [6, 2]
    other = write_seed(tmp_path / "b", 1, gained=5)
    assert compared_values(read_evaluation(other), evaluation.study.headline) is None


def test_values_that_are_not_stored_give_no_interval_over_problems(tmp_path):
    """Of two seeds one has a difference whose values are elsewhere."""
    first, second = (
        write_seed(tmp_path / name, seed, gained=4) for seed, name in ((1, "a"), (2, "b"))
    )
    content = read_json(second / "metrics.json")
    content["differences"][0]["of_reference"] = 0.4
    write_json(second / "metrics.json", content)
    assert seeds_of(first, second).over_problems is None
    assert "no interval over problems" in claims_of(first, second)[1]


def test_a_seed_that_is_not_held_out_says_so(tmp_path):
    arms = [ToyArm(base=name, values=right(3), seen=seen) for name, seen in SEEN.items()]
    folder = write_evaluation(tmp_path, "classmate", *arms, seed=4)
    assert claims_of(folder)[-1].startswith("Seed 4: NOT HELD OUT: the training of plain saw 2 of")


def test_nothing_solved_claims_nothing(tmp_path):
    arms = [ToyArm(base=name, values=right(0)) for name in ("peers", "plain")]
    folder = write_evaluation(tmp_path, "classmate", *arms)
    assert claims_of(folder) == ("Nothing was solved, so nothing is claimed.",)


def test_each_seed_runs_in_a_folder_of_its_own(tmp_path, capsys):
    """Then seeds.json, the page and the console have all of them; `reasonloop report` shows the same."""
    ran = []

    def run(_system, root, params):
        ran.append((root.name, params.seed))
        write_seed(root, params.seed, gained=params.seed)

    options = WorkspaceOptions(workspace=tmp_path)
    run_each("classmate", options, SETTINGS, SeedOptions(seeds="3,4"), run)
    assert ran == [("seed-3", 3), ("seed-4", 4)]
    folder = tmp_path / "reports" / "classmate" / "seeds"
    content = read_json(folder / "seeds.json")
    assert [(one["seed"], one["value"]) for one in content["seeds"]] == [(3, 0.15), (4, 0.2)]
    assert content["mean"] == pytest.approx(0.175)
    title = "classmate, 2 seeds: peers minus plain, accuracy: +17.5 points in the mean"
    assert title in capsys.readouterr().out
    assert f"<h1>{title}</h1>" in (folder / "report.html").read_text()
    (folder / "seeds.json").unlink()
    with pytest.raises(SystemExit) as stopped:
        main(["report", "--workspace", str(tmp_path), "--set", "evaluate.resamples=200"])
    assert not stopped.value.code
    assert title in capsys.readouterr().out
    assert read_json(folder / "seeds.json") == content


def test_one_seed_runs_in_the_workspace(tmp_path):
    ran = []
    options = WorkspaceOptions(workspace=tmp_path)
    for seeds in (SeedOptions(seed=5), SeedOptions()):
        run_each("prr", options, SETTINGS, seeds, lambda *given: ran.append(given))
    assert [(root, params.seed) for _, root, params in ran] == [(tmp_path, 5), (tmp_path, 7)]


@pytest.mark.parametrize("seeds", ["7,7", "7,x", "", "-1", "7,,8"])
def test_bad_lists_are_refused(seeds):
    with pytest.raises(BadInputError, match="give different numbers"):
        _ = SeedOptions(seeds=seeds).numbers


@pytest.mark.parametrize("group", ["", "apr", "pacore", "classmate", "prr"])
def test_seed_and_seeds_together_are_refused(group, tmp_path, capsys):
    """By every system's command, in one line, before anything is written."""
    words = [*filter(None, [group]), "run", "--seed", "7", "--seeds", "7,8"]
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--workspace", str(tmp_path)])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "reasonloop: --seed and --seeds: give one of them\n"
    assert list(tmp_path.iterdir()) == []
