"""Prefixes, series, contrasts and claims of an evaluation; success of peers by problem and set of paths, attempts."""

from dataclasses import replace

import pytest

from pipeline_lib.errors import BadInputError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.params.classmate import ClassmateEvaluateParams, ClassmateParams
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.paths import VerifyParams
from pipeline_lib.records import FinishReason, Group, JudgedPath, Path, Problem, Provenance
from pipeline_lib.store import manifests
from pipeline_lib.store.files import write_json_lines
from pipeline_lib.study.attempts import Cost
from pipeline_lib.study.statistics.intervals import DifferenceFinding
from pipeline_lib.study.study import Difference, Study
from pipeline_lib.systems.classmate.cut import Prefix
from pipeline_lib.systems.classmate.evaluation import (
    chosen_controls,
    claims,
    gains,
    training_figures,
)
from pipeline_lib.systems.classmate.peer import HELD_OUT, TRAINING
from pipeline_lib.systems.classmate.prefixes import (
    Asked,
    CutPath,
    asked_for,
    cut_paths,
    failed_share,
    right_spread,
    shuffled,
)
from pipeline_lib.systems.classmate.study import (
    Judged,
    Policy,
    classmate_study,
    contrasts,
    policy_series,
)
from pipeline_lib.train.token_budget import Tokens
from pipeline_lib.train.weights.policies import LOG_NAME, token_counts
from pipeline_lib.verify.dispatch import judge_paths, open_verifier
from tests.unit.study.judged_groups import judged_group

SHARE = 0.5


def cut_path(problem_id: str, prefix: str, *, right: bool, sample: int = 0) -> CutPath:
    """A path with one prefix."""
    cut = Prefix(text=prefix, kept=len(prefix.splitlines()), leaked=False)
    return CutPath(problem_id=problem_id, sample=sample, right=right, prefixes={SHARE: cut})


def scores_of(peer: str, table: dict[tuple[str, str], str]) -> dict[tuple[str, Asked], list]:
    """Scores from letters: c right, w wrong, ``.`` missing; by problem and prefix."""
    meaning = {"c": True, "w": False, ".": None}
    return {
        (peer, (problem, prefix)): [meaning[letter] for letter in letters]
        for (problem, prefix), letters in table.items()
    }


PEER = "peer"
PARAMS = EvaluateParams(num_paths=2, ks=(1,), resamples=200)
PATHS = [
    cut_path("p", "a\n", right=True),
    cut_path("p", "b\n", right=False, sample=1),
    cut_path("q", "c\n", right=False),
]
SCORES = scores_of(PEER, {("p", "a\n"): "cc", ("p", "b\n"): "cw", ("q", "c\n"): "w."})


def policy(name, letters, paths=PATHS):
    groups = [judged_group(problem, text) for problem, text in letters.items()]
    return Policy(name=name, groups=groups, paths=paths)


def judged(*policies, scores=SCORES, peers=None, controls=("plain",)):
    return Judged(
        policies=policies,
        controls=controls,
        peers=peers or {PEER: HELD_OUT},
        scores=scores,
        keep=(SHARE,),
    )


def study_of(*policies, **changes):
    return classmate_study(
        judged(*policies, **changes),
        PARAMS,
        seed=7,
        provenance={},
        draws_without_peers=None,
    )


PLAIN = policy("plain", {"p": "cw", "q": "ww"})


@pytest.mark.parametrize(
    ("subset", "means"),
    [
        ("all", {"p": 0.75, "q": 0.0}),
        ("right paths", {"p": 1.0}),
        ("wrong paths", {"p": 0.5, "q": 0.0}),
    ],
)
def test_success_is_a_mean_over_prefixes_then_problems(subset, means):
    """p: (2/2 + 1/2) / 2; q: 0 of 1 known; a problem without such paths is left out."""
    _, *success = policy_series(PLAIN, judged(PLAIN), (1,))
    assert {one.measure for one in success} == {HELD_OUT}
    assert [one.values for one in success if one.subset == subset] == [means]


def test_a_continuation_without_a_score_is_no_failure_of_the_prefix():
    """With both continuations of q missing, q is left out instead of counted as 0."""
    scores = SCORES | scores_of(PEER, {("q", "c\n"): ".."})
    found = policy_series(PLAIN, judged(PLAIN, scores=scores), (1,))
    assert found[1].values == {"p": 0.75}
    assert failed_share(scores, PEER) == pytest.approx(2 / 6)


@pytest.mark.parametrize(("letters", "sd"), [(("cc", "ww"), 0.5**0.5), (("cw", "wc"), 0.0)])
def test_the_spread_of_right_prefixes_is_the_covariance_of_halves(letters, sd):
    """Success 1 and 0, equal in both halves: covariance 1/2 (n - 1 = 1). Halves that disagree: -1/2, noise alone."""
    paths = [cut_path("p", "a\n", right=True), cut_path("p", "b\n", right=True)]
    scores = scores_of(PEER, {("p", "a\n"): letters[0], ("p", "b\n"): letters[1]})
    found = right_spread(paths, PEER, SHARE, scores)
    assert found == {"sd": pytest.approx(sd), "mean": 0.5, "problems": 1}


@pytest.mark.parametrize(("second", "right"), [("a\n", True), ("b\n", False)])
def test_one_right_prefix_has_no_spread(second, right):
    """An equal prefix, or one of a wrong path alone, is no second one."""
    paths = [cut_path("p", "a\n", right=True), cut_path("p", second, right=right)]
    scores = scores_of(PEER, {("p", "a\n"): "cc", ("p", "b\n"): "ww"})
    assert right_spread(paths, PEER, SHARE, scores) is None


def test_prefixes_of_another_problem_and_none_are_arms():
    """The first path of q is asked for p, and that of p for q: success 1 and 0, mean 1/2. Without one: p alone, 0."""
    asked = {("p", "c\n"): "cc", ("q", "a\n"): "ww", ("p", ""): "ww"}
    study, _, _ = study_of(
        PLAIN, policy("classmate", {"p": "cw"}), scores=SCORES | scores_of(PEER, asked)
    )
    assert study.point("shuffled of=peers", HELD_OUT).value == 0.5
    assert study.point("empty", HELD_OUT).value == 0.0


def test_differences_are_taken_on_problems_that_both_have():
    """Right paths: plain has some on p alone, the other policy on both; p goes from 1 to 0. This is the headline."""
    after = [cut_path("p", "d\n", right=True), cut_path("q", "e\n", right=True)]
    scores = SCORES | scores_of(PEER, {("p", "d\n"): "ww", ("q", "e\n"): "cc"})
    actor = policy("classmate", {"p": "cw", "q": "cw"}, after)
    study, _, _ = study_of(PLAIN, actor, scores=scores)
    right, accuracy, every = study.differences[:3]
    assert (right.arm, right.reference, right.subset) == (
        "peers peer=peer",
        "plain peer=peer",
        "right paths",
    )
    assert (right.value, right.n) == (-1, 1)
    assert (accuracy.measure, accuracy.value) == ("pass@1", 0.25)
    assert every.value == pytest.approx((-0.75 + 1) / 2)
    assert [one.p_adjusted is None for one in (right, accuracy, every)] == [False, False, True]


def test_gains_are_tested_in_two_families_over_each_control():
    """Accuracy and held-out peers are one family, peers of the training another; the base is no control."""
    names = ("base", "hashed", "plain", "actor")
    given = judged(
        *(policy(name, {"p": "cw"}) for name in names),
        peers={"asked": TRAINING, "other": HELD_OUT},
        controls=("plain", "hashed"),
    )
    own = {one.name: policy_series(one, given, (1,)) for one in given.policies}
    found = contrasts(given, own)
    tested = [(one.family, one.candidate.measure) for one in found if one.family]
    assert tested == [
        (f"{family} over {control}", measure)
        for control in ("plain", "hashed")
        for family, measure in (
            ("gains", HELD_OUT),
            ("training peers", TRAINING),
            ("gains", "pass@1"),
        )
    ]
    assert found[0].family == "gains over plain"
    assert found[0].seed_names == ("classmate", "difference", "plain", "actor", "other", "right")


def test_the_headline_is_of_the_measure_and_against_the_policy_that_are_named():
    """Accuracy against the other control, before all else."""
    names = ("base", "plain", "chain", "actor")
    given = replace(
        judged(*(policy(name, {"p": "cw"}) for name in names), controls=("plain", "chain")),
        headline="pass@1",
        against="chain",
    )
    first = contrasts(given, {one.name: policy_series(one, given, (1,)) for one in given.policies})[
        0
    ]
    assert (first.candidate.arm.base, first.reference.arm.base) == ("actor", "chain")
    assert first.candidate.measure == "pass@1"
    with pytest.raises(BadInputError, match="against=cain: is none of base, plain, chain"):
        ClassmateEvaluateParams(against="cain").check_against(names)


def test_votes_of_several_paths():
    """maj@2 of two paths with one answer that is right, and with two answers: the first seen counts."""
    made = policy_series(policy("plain", {"p": "cc", "q": "ww"}), judged(PLAIN), (1, 2))
    [votes] = [one for one in made if one.measure == "maj@2"]
    assert votes.values == {"p": 1.0, "q": 0.0}


def log_of(folder, rewards, **columns):
    """The folder of a policy after draws with these verified rewards."""
    write_json_lines(folder / LOG_NAME, [{"reward": one, **columns} for one in rewards])
    tokens = token_counts(Tokens(trained=30, drawn=30))
    manifests.seal(folder, kind="model", key="k", counts=tokens)
    return folder


def test_what_a_training_took(tmp_path):
    """The mean of ten draws is 1/2 after fifteen steps, as five of ten are right; a learned token is three passes.

    30 + 3 x 30 tokens of the actor, and 7 of a peer in each of 20 draws.
    """
    folder = log_of(tmp_path, [0.0] * 10 + [1.0] * 10, **{"peer_tokens/x": 7})
    found = training_figures(folder, 0.5)
    assert found == {"steps": 20, "token_passes": 120 + 140, "steps_to_accuracy": 15}
    assert training_figures(folder, 1.0)["steps_to_accuracy"] == 20
    assert training_figures(tmp_path / "none", 0.5) == {}


def test_several_shares_are_arms_beside_their_mean():
    """With one share the mean over all shares is the figure of that share."""
    one = judged(PLAIN)
    two = Judged(
        policies=one.policies, controls=(), peers=one.peers, scores=SCORES, keep=(SHARE, SHARE)
    )
    settings = [each.arm.settings for each in policy_series(PLAIN, two, (1,))]
    assert settings[1] == {"peer": PEER}
    assert {"peer": PEER, "share": SHARE} in settings
    assert all("share" not in each.arm.settings for each in policy_series(PLAIN, one, (1,)))


def test_attempts_have_the_success_of_peers():
    """Of the paths whose prefixes were continued: the first two of p, the first of q."""
    study, _, attempts = study_of(PLAIN, policy("classmate", {"p": "cw"}))
    assert study.compute["peers"][PEER]["held_out"]
    found = [(one.arm, one.problem_id, one.sample, one.right, dict(one.extra)) for one in attempts]
    assert found[:4] == [
        ("plain", "p", 0, True, {"peer share=0.5": 1.0}),
        ("plain", "p", 1, False, {"peer share=0.5": 0.5}),
        ("plain", "q", 0, False, {"peer share=0.5": 0.0}),
        ("plain", "q", 1, False, {}),
    ]
    assert isinstance(attempts[0].cost, Cost)


def test_problems_without_enough_scored_paths_are_left_out():
    """With one scored path where pass@2 needs two; a policy without any such problem is refused."""
    few = {"p": "cx", "q": "cw"}
    made = policy_series(policy("plain", few), judged(PLAIN), (1, 2))
    assert made[0].values == {"q": 0.5}
    with pytest.raises(BadInputError, match=r"none of 1 problems has the 2 scored paths"):
        policy_series(policy("plain", {"p": "cx"}), judged(PLAIN), (1, 2))


ACCURACY = "pass@1"


def difference(measure, reference, p, *, level=0.5):
    """A gain of ten points with this p-value if that is at most 0.05, else none."""
    gained = DifferenceFinding.GAIN if p <= 0.05 else DifferenceFinding.NO_SIGNIFICANT_GAIN
    kind, _, peer = measure.partition(" of ")
    named = f" peer={peer}" if peer else ""
    return Difference(
        arm=f"actor{named}", reference=f"{reference}{named}", set="main", measure=kind,
        subset="right paths" if peer else "all", value=0.1, low=0.01, high=0.2, p=p, p_adjusted=p,
        n=200, of_arm=level, of_reference=level, finding=gained,
    )  # fmt: skip


def study(*differences, unscored=0.0, failed=0.0):
    return Study(
        system="classmate", seed=7, level=0.95, provenance={}, arms=(), points=(),
        differences=differences, left_out=(),
        compute={"policies": {"plain": {"unscored": unscored}}, "peers": {"other": {"unscored": failed}}},
    )  # fmt: skip


OTHER, ASKED = f"{HELD_OUT} of other", f"{TRAINING} of asked"


def claimed(given, **changes):
    """Claims from p-values by control and measure, the headline's first."""
    found = [
        difference(name, control, p) for control, own in given.items() for name, p in own.items()
    ]
    return claims(study(*found, **changes), [*given], is_control=False)


@pytest.mark.parametrize(
    ("plain", "hashed", "gained"),
    [
        ({OTHER: 0.9, ACCURACY: 0.9, ASKED: 0.9}, None, "none"),
        ({OTHER: 0.9, ACCURACY: 0.001, ASKED: 0.9}, None, "pass@1 of actor"),
        ({OTHER: 0.9, ACCURACY: 0.001}, {OTHER: 0.9, ACCURACY: 0.9}, "none"),
        (
            {OTHER: 0.001, ACCURACY: 0.9},
            {OTHER: 0.02, ACCURACY: 0.9},
            "success of a held-out peer (right paths) of actor (peer other)",
        ),
        (
            {OTHER: 0.001, ACCURACY: 0.9, ASKED: 0.001},
            {OTHER: 0.9, ACCURACY: 0.9, ASKED: 0.04},
            "success of a peer of the training (right paths) of actor (peer asked)",
        ),
    ],
)
def test_a_gain_counts_over_every_control(plain, hashed, gained):
    """The p-value of a measure is the largest over the controls."""
    given = {"plain": plain} | ({} if hashed is None else {"hashed": hashed})
    names = "plain and hashed" if hashed else "plain"
    sentence = f"Gains over {names}, corrected for several tests: {gained}."
    assert sentence in claimed(given)


@pytest.mark.parametrize(
    ("p_values", "gained"),
    [
        ((0.04,), ()),
        ((0.02,), (0,)),
        ((0.04, 0.5, 0.6), ()),
        ((0.04, 0.012, 0.016), (1, 2)),
        ((0.03, 0.02, 0.02), ()),
    ],
)
def test_many_held_out_peers_are_many_tests(p_values, gained):
    """Holm's method at 5 % over accuracy and K peers: the smallest p-value below 5 % / (K + 1), the next
    below 5 % / K, and so on.
    """
    found = [
        difference(ACCURACY, "plain", 0.9),
        *(difference(f"{HELD_OUT} of {n}", "plain", p) for n, p in enumerate(p_values)),
    ]
    expected = [
        f"success of a held-out peer (right paths) of actor (peer {number})" for number in gained
    ]
    assert gains(study(*found), num_controls=1) == expected


def test_the_title_is_no_gain_that_another_control_has_too():
    """The headline's difference is a gain over plain training, but not over the hashed bonus."""
    both = claimed({"plain": {OTHER: 0.001}, "hashed": {OTHER: 0.9}})
    assert (
        both[0]
        == "No gain of actor (peer other) over every control in success of a held-out peer (right paths)"
    )
    assert "10.0 points" in claimed({"plain": {OTHER: 0.001}})[0]


def test_a_gain_over_plain_training_alone_is_left_open():
    """A dealt bonus may gain as much; with both controls the sentence is not needed."""
    gained = {OTHER: 0.001}
    assert any("compared with plain alone" in one for one in claimed({"plain": gained}))
    both = claimed({"plain": gained, "hashed": gained})
    assert not any("alone" in one for one in both)


def test_a_policy_with_a_dealt_bonus_is_called_so():
    found = claims(study(difference(OTHER, "plain", 0.001)), ["plain"], is_control=True)
    assert "the peers did not give" in found[-1]


@pytest.mark.parametrize(
    ("missing", "what"),
    [({"failed": 0.25}, "continuations of other"), ({"unscored": 0.25}, "paths of plain")],
)
def test_missing_scores_are_no_finding(missing, what):
    """More than 1 % of a peer's continuations or of a policy's paths; the figures follow."""
    title, figures, *_ = claimed({"plain": {OTHER: 0.001}}, **missing)
    assert title == f"No finding: 25.0\N{NO-BREAK SPACE}% of the {what} have no score."
    assert figures.startswith("Success of a held-out peer (right paths) of actor (peer other) is")
    few = claimed({"plain": {OTHER: 0.001}}, **dict.fromkeys(missing, 0.01))
    assert few[0].startswith("Actor (peer other) gains")


def test_nothing_solved_claims_nothing():
    """Neither a peer nor a policy is right anywhere."""
    found = [difference(name, "plain", 0.9, level=0.0) for name in (OTHER, ACCURACY)]
    assert claims(study(*found), ["plain"], is_control=False)[0].startswith("Nothing was solved")
    solved = [found[0], difference(ACCURACY, "plain", 0.9)]
    assert claims(study(*solved), ["plain"], is_control=False)[0].startswith("No significant gain")


PROBLEM = Problem(
    id="p",
    question="24 from 3, 5 and 3",
    gold=CountdownGold(numbers=(3, 3, 5), target=24),
    source="x",
)
ORIGIN = Provenance(model="m", template="t", seed=1, temperature=1.0, top_p=1.0, max_new_tokens=8)


def test_the_first_paths_are_cut_at_every_share():
    """Two of three paths; of two steps a half keeps one and a quarter none; the last path is not asked."""
    texts = ["5+3=8\n8*3=24", "5*3=15\n15+3=18", "3+3=6\n6*5=30"]
    paths = [
        Path(
            problem_id="p", index=index, text=text, finish_reason=FinishReason.STOP,
            prompt_tokens=1, completion_tokens=1, logprob=None, provenance=ORIGIN,
        )
        for index, text in enumerate(texts)
    ]  # fmt: skip
    params = ClassmateParams(keep=(0.25, 0.5), evaluate=ClassmateEvaluateParams(paths=2))
    with open_verifier(VerifyParams()) as verifier:
        verdicts = judge_paths(paths, [PROBLEM], verifier)
        members = [JudgedPath(path=p, verdict=v) for p, v in zip(paths, verdicts, strict=True)]
        cut = cut_paths([Group(problem=PROBLEM, members=members)], params, verifier)
    assert [path.right for path in cut] == [True, False]
    assert [path.prefixes[0.5].text for path in cut] == ["5+3=8\n", "5*3=15\n"]
    assert {path.prefixes[0.25].text for path in cut} == {""}
    assert asked_for(cut) == [("p", ""), ("p", "5*3=15\n"), ("p", "5+3=8\n")]


def test_each_problem_gets_the_first_path_of_the_next_one():
    """The last gets that of the first."""
    paths = [
        cut_path("p", "a\n", right=True),
        cut_path("p", "b\n", right=True),
        cut_path("q", "c\n", right=True),
    ]
    moved = [(path.problem_id, path.prefixes[0.5].text) for path in shuffled(paths)]
    assert moved == [("p", "c\n"), ("q", "a\n")]


ARMS = ["base", "plain", "hashed", "w0.1", "w0.5"]


def test_without_names_they_are_all_between_the_first_and_the_last():
    """Of two policies the first is the control."""
    assert chosen_controls(ARMS, ()) == ["plain", "hashed", "w0.1"]
    assert chosen_controls(ARMS[:2], ()) == ["base"]


def test_an_arm_that_is_not_named_is_no_control():
    """A gain with the weight 0.5 need not exceed that with 0.1."""
    assert chosen_controls(ARMS, ("plain", "hashed")) == ("plain", "hashed")


@pytest.mark.parametrize(
    ("policies", "named", "message"),
    [
        (ARMS, ("plian",), "--control plian: is none of base, plain, hashed, w0.1"),
        (ARMS, ("w0.5",), "--control w0.5: is none of"),
        (["base"], (), "base: one policy"),
    ],
)
def test_unusable_names(policies, named, message):
    """One line that says what there is."""
    with pytest.raises(BadInputError, match=message) as error:
        chosen_controls(policies, named)
    assert "\n" not in str(error.value)
