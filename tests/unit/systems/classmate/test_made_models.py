"""Problems and peers that are made, and the table of `benchmarks.classmate_arms`."""

import pathlib
from dataclasses import replace

import pytest

from benchmarks.classmate_arms import differences_table
from benchmarks.lib.seeds import over_seeds
from pipeline_lib.engines.pretrained import load_tokenizer
from pipeline_lib.errors import BadInputError
from pipeline_lib.params.classmate import ClassmateParams, MadePeerParams, PeerParams
from pipeline_lib.params.paths import (
    BootstrapParams,
    CountdownParams,
    HopsParams,
    PrepareParams,
)
from pipeline_lib.params.whole import Params
from pipeline_lib.problems.countdown import generate
from pipeline_lib.problems.hops import splits
from pipeline_lib.store.files import digest_file, write_json
from pipeline_lib.study.statistics.intervals import DifferenceFinding
from pipeline_lib.study.study import Difference, Study
from pipeline_lib.systems.classmate.made_models import held_out_peers, make_peer, training_peers
from pipeline_lib.systems.classmate.problem_files import load_problems
from pipeline_lib.systems.classmate.work.peers import make_peers
from pipeline_lib.systems.stage import Run

FOLDER = pathlib.Path("peers")
RECIPES = tuple(
    MadePeerParams(name=name, held_out=held_out, hidden_size=8, num_layers=1, num_heads=1, steps=1)
    for name, held_out in (("small", False), ("other", True))
)
TINY = ClassmateParams(
    prepare=PrepareParams(
        train_problems=20,
        test_problems=4,
        bootstrap_problems=20,
        dataset="countdown",
        countdown=CountdownParams(num_numbers=3, test_number_sets=0),
    ),
    bootstrap=BootstrapParams(hidden_size=8, num_layers=1, num_heads=1, steps=1),
    made_peers=RECIPES[:1],
)


def names(peers):
    return [(peer.name, peer.model) for peer in peers]


def test_without_named_peers_those_of_the_recipes_are_used():
    """A recipe is a peer of the training, or is held out."""
    params = ClassmateParams(made_peers=RECIPES)
    assert names(training_peers(params, FOLDER)) == [("small", "peers/small")]
    assert names(held_out_peers(params, FOLDER)) == [("other", "peers/other")]


def test_named_peers_replace_all_recipes():
    """Held-out ones as well, so that no peer is made."""
    params = ClassmateParams(
        classmate_model_name_or_path_list=(PeerParams(name="own", model="models/own"),),
        made_peers=RECIPES,
    )
    assert names(training_peers(params, FOLDER)) == [("own", "models/own")]
    assert held_out_peers(params, FOLDER) == ()
    assert params.used_recipes == ()


def test_a_name_is_given_once():
    """Also between recipes and held-out peers."""
    with pytest.raises(ValueError, match="'other' is given to two classmates"):
        ClassmateParams(made_peers=RECIPES, held_out=(PeerParams(name="other", model="m"),))


@pytest.mark.parametrize(("tokenizer", "pieces"), [("numbers", ["12"]), ("digits", ["1", "2"])])
def test_peers_differ_in_their_tokens(tmp_path, tokenizer, pieces):
    """12, which is frequent in their solutions, is one token, or one for each digit."""
    problems = generate(CountdownParams(high=12), seed=7, count=40)
    recipe = RECIPES[0].model_copy(update={"tokenizer": tokenizer})
    make_peer(
        [*problems], tmp_path / "peer", recipe, ClassmateParams(), seed=7, progress=lambda *_: None
    )
    loaded = load_tokenizer(str(tmp_path / "peer"))
    ids = loaded.encode("12", add_special_tokens=False)
    assert [loaded.decode([one]) for one in ids] == pieces


def test_a_peer_learns_the_solutions_for_peers(tmp_path):
    """The same weights as without the worked solutions, and others without the column."""
    problems = splits(HopsParams(), seed=7, counts={"bootstrap": 40})["bootstrap"]
    made = []
    for change in ({}, {"solution": None}, {"columns": {}}):
        folder = tmp_path / str(len(made))
        changed = [replace(one, **change) for one in problems]
        make_peer(changed, folder, RECIPES[0], TINY, seed=7, progress=lambda *_: None)
        made.append(digest_file(folder / "model.safetensors"))
    assert made[0] == made[1] != made[2]


def test_peers_of_a_run_are_made_from_the_bootstrap_problems_alone(tmp_path):
    """Those problems give the same weights; with the solutions of the train problems they would be others."""
    run = Run(root=tmp_path, params=Params(classmate=TINY))
    make_peers(run)
    problems = load_problems(TINY.prepare, "bootstrap", seed=run.params.seed)
    alone = tmp_path / "alone"
    make_peer(problems, alone, RECIPES[0], TINY, seed=run.params.seed, progress=lambda *_: None)
    made = run.workspace.classmate.peers / "small"
    assert digest_file(made / "model.safetensors") == digest_file(alone / "model.safetensors")


def test_a_peer_that_is_named_is_kept(tmp_path):
    """One that an earlier run has made, as a peer of the training or held out; others are removed."""
    run = Run(root=tmp_path, params=Params(classmate=TINY))
    make_peers(run)
    small = run.workspace.classmate.peers / "small"
    named = PeerParams(name="again", model=str(small))
    left = small.with_name("left")
    for change in ({"classmate_model_name_or_path_list": (named,)}, {"held_out": (named,)}):
        left.mkdir()
        renamed = RECIPES[0].model_copy(update={"name": "first"})
        params = TINY.model_copy(update={"made_peers": (renamed,), **change})
        make_peers(run.model_copy(update={"params": Params(classmate=params)}))
        assert (small / "model.safetensors").is_file()
        if "held_out" in change:
            assert not left.exists()
        else:
            left.rmdir()


def test_problems_of_another_kind_are_refused(tmp_path):
    """A grid can be stated in ways that no rule finds."""
    for number, split in enumerate(["training"] * 6 + ["evaluation"] * 3):
        pair = {"input": [[number, 2]], "output": [[2, number]]}
        (tmp_path / split).mkdir(exist_ok=True)
        write_json(tmp_path / split / f"puzzle{number}.json", {"train": [pair], "test": [pair]})
    params = PrepareParams(
        dataset="arc",
        source=str(tmp_path),
        train_problems=3,
        test_problems=3,
        bootstrap_problems=3,
    )
    with pytest.raises(BadInputError, match="dataset=arc: kind arc has no rule"):
        load_problems(params, "test", seed=7)


def test_the_interval_over_seeds_is_that_of_student():
    """0, 2 and 4 points: deviation 2, standard error 2 / sqrt 3; t of 2 degrees of freedom is 4.303."""
    found = over_seeds([0.0, 0.02, 0.04])
    margin = 4.302653 * 0.02 / 3**0.5
    assert found == pytest.approx({"value": 0.02, "low": 0.02 - margin, "high": 0.02 + margin})


def test_one_seed_has_no_interval_over_seeds():
    """Its deviation is unknown."""
    assert over_seeds([0.02]) is None


def study(value):
    """Plain training minus the arm, with bounds at a distance of 3 points."""
    difference = Difference(
        arm="plain", reference="w0.5", set="main", measure="pass@1", subset="all", value=-value,
        low=-value - 0.03, high=-value + 0.03, p=1.0, p_adjusted=None, n=9, of_arm=0.5,
        of_reference=0.5, finding=DifferenceFinding.GAIN,
    )  # fmt: skip
    return Study(
        system="classmate", seed=7, level=0.95, provenance={}, arms=(), points=(),
        differences=(difference,), left_out=(), compute={"peers": {}},
    )  # fmt: skip


def test_the_table_has_both_intervals():
    """Over problems 2 -+ 3 / sqrt 3 points for these three trainings, over seeds 2 -+ 5.0."""
    table = differences_table([study(value) for value in (0.0, 0.02, 0.04)], ["w0.5"], "plain")
    cells = [next(iter(column.cells)) for column in table.columns]
    assert [column.header for column in table.columns][3:] == [
        "mean (95 % over problems)",
        "(95 % over seeds)",
    ]
    assert cells[2:] == ["+0.0, +2.0, +4.0", "+2.0 (+0.3 to +3.7)", "+2.0 (-3.0 to +7.0)"]
