"""A probe from chains to lines and its study: files of chains, order, leaks, donors, interrupted commands, the page."""

import json
from contextlib import nullcontext

import pytest

from pipeline_lib.engines.chat_model import Completion
from pipeline_lib.errors import BadInputError, ReasonloopError
from pipeline_lib.kinds.countdown import CountdownGold
from pipeline_lib.kinds.math import MathGold
from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.params.whole import Params
from pipeline_lib.records import Problem
from pipeline_lib.store.files import read_json_lines
from pipeline_lib.study.pages.page import write_page
from pipeline_lib.systems.classmate.cut import Chain
from pipeline_lib.systems.classmate.peer import NO_ROOM, PeerFailedError
from pipeline_lib.systems.classmate.probe import (
    Probed,
    check_questions,
    donors,
    probe_chains,
    read_chains,
)
from pipeline_lib.systems.classmate.probe_study import (
    distinct_shares,
    lift_table,
    probe_page,
    probe_study,
)
from tests.unit.systems.classmate.scripted_peer import ScriptedPeer
from tests.unit.systems.pacore.scripted_chat import PlainTurns


def chains(count=4):
    """Solutions of 10 = 2 + 3 + 5 in two steps; the numbers of a problem are one apart."""
    found = []
    for n in range(count):
        gold = CountdownGold(numbers=(2 + n, 3, 5), target=10 + n)
        problem = Problem(id=f"p{n}", question="", gold=gold, source="test")
        steps = (f"{2 + n}+3={5 + n}\n", f"{5 + n}+5={10 + n}")
        found.append(Chain(id=f"c{n}", problem=problem, steps=steps))
    return found


def finish(prefix, seed):
    """After the first step of c0 the second, for even seeds; otherwise nothing."""
    return "5+5=10" if prefix == "2+3=5\n" and seed % 2 == 0 else ""


def probe(peers, output, found=None, *, seed=7, **options):
    options = {"samples": 40, "shuffled": False} | options
    params = Params(seed=seed)
    return probe_chains(found or chains(), output, params, opening=nullcontext(peers), **options)


def test_lines_in_the_order_of_the_chains(tmp_path):
    """40 consecutive seeds are 20 even ones: success 0, 1/2 and 1 by kept steps of c0; the whole chain gives its
    answer away. No other file is left."""
    output = tmp_path / "out.jsonl"
    found = probe([ScriptedPeer(name="p", write=finish)], output)
    rows = list(read_json_lines(output))
    assert (found.rows, found.notes) == (rows, [])
    assert list(rows[0]) == ["id", "peers", "leak", "continuations"]
    assert list(rows[0]["peers"]["p"]) == ["kept", "success", "low", "high", "lift", "failed"]
    assert [row["id"] for row in rows] == ["c0", "c1", "c2", "c3"]
    assert rows[0]["peers"]["p"]["success"] == [0.0, 0.5, 1.0]
    assert rows[0]["peers"]["p"]["lift"] == [None, 0.5, 0.5]
    assert rows[0]["leak"] == [False, False, True]
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]


class Failing(ScriptedPeer):
    """It answers ``healthy`` calls, then none."""

    healthy = 1

    def answer(self, questions, decoding, *, timeout_s):
        if len(self.calls) == self.healthy:
            raise PeerFailedError("gone")
        return ScriptedPeer.answer(self, questions, decoding, timeout_s=timeout_s)


def test_an_interrupted_probe_asks_only_what_is_left(tmp_path):
    """3 prefixes of 40 are 120 a chain: 2 of 4 chains are a group of 240. The second call fails; the same command
    asks that group alone, and then the second peer, and its lines are those of an unbroken one."""
    whole, broken = tmp_path / "whole.jsonl", tmp_path / "broken.jsonl"
    probe([ScriptedPeer(name=name, write=finish) for name in "pq"], whole)
    with pytest.raises(PeerFailedError):
        probe([Failing(name="p", write=finish), ScriptedPeer(name="q", write=finish)], broken)
    assert not broken.exists()
    peers = [ScriptedPeer(name=name, write=finish) for name in "pq"]
    probe(peers, broken)
    assert [len(peer.calls) for peer in peers] == [1, 2]
    assert [one.problem.id for one in peers[0].calls[0]] == ["p2"] * 3 + ["p3"] * 3
    assert broken.read_text("utf-8") == whole.read_text("utf-8")


@pytest.mark.parametrize("change", [{"samples": 41}, {"seed": 8}, {"shuffled": True}])
def test_an_unfinished_probe_of_other_work_is_refused(tmp_path, change):
    """Its continuations are of another setting; the file is kept."""
    output = tmp_path / "out.jsonl"
    with pytest.raises(PeerFailedError):
        probe([Failing(name="p", write=finish)], output)
    with pytest.raises(BadInputError, match=r"out\.jsonl\.partial: is of another input"):
        probe([ScriptedPeer(name="p", write=finish)], output, **change)


def test_another_model_under_the_same_name_is_other_work(tmp_path):
    """The identity of a peer is part of the work."""
    output = tmp_path / "out.jsonl"
    with pytest.raises(PeerFailedError):
        probe([Failing(name="p", write=finish)], output)
    with pytest.raises(BadInputError, match="is of another input"):
        probe([ScriptedPeer(name="p", write=finish, identity="other")], output)


def test_a_chain_larger_than_a_group_is_a_group(tmp_path):
    """3 x 100 continuations of each of two chains: two calls."""
    peer = ScriptedPeer(name="p", write=finish)
    probe([peer], tmp_path / "out.jsonl", chains(2), samples=100)
    assert [len(call) for call in peer.calls] == [3, 3]


def test_progress_counts_pairs_of_chain_and_peer(tmp_path):
    """Two groups of two chains for each of two peers: 0, 2, 4, 6 and 8 of 8."""
    seen = []
    probe(
        [ScriptedPeer(name=name, write=finish) for name in "pq"],
        tmp_path / "out.jsonl",
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(0, 8), (2, 8), (4, 8), (6, 8), (8, 8)]


def test_verdicts_of_other_code_are_not_continued(tmp_path, monkeypatch):
    """The journal of an interrupted probe is one of the present code."""
    output = tmp_path / "out.jsonl"
    with pytest.raises(PeerFailedError):
        probe([Failing(name="p", write=finish)], output)
    monkeypatch.setattr("pipeline_lib.systems.classmate.probe.code_digest", lambda module: module)
    with pytest.raises(BadInputError, match="of another input, model, setting or version"):
        probe([ScriptedPeer(name="p", write=finish)], output)


def chain(*steps, numbers, target):
    gold = CountdownGold(numbers=numbers, target=target)
    problem = Problem(id=f"p{target}", question="", gold=gold, source="test")
    return Chain(id=f"c{target}", problem=problem, steps=steps)


RIGHT = chain("3+5=8\n", "8*3=24", numbers=(3, 5, 3), target=24)
OTHER = chain("1+1=2\n", "2+1=3\n", "3+1=4\n", "4+1=5", numbers=(1,) * 5, target=5)


def test_prefixes_of_a_chain_and_of_its_donor(tmp_path):
    """All prefixes are one call, with equal seeds for all peers, each seed once. 1 of 2 steps is 2 of the donor's 4, and
    1 of 4 is 0 of the donor's 2. They are judged by the chain's own gold, so the donor's whole is wrong; the draws from
    the empty prefix are the chain's own."""

    def write(prefix, _seed):
        return "8*3=24" if prefix == "3+5=8\n" else ""

    peers = [ScriptedPeer(name=name, write=write) for name in "xy"]
    rows = probe(peers, tmp_path / "out.jsonl", [RIGHT, OTHER], samples=3, shuffled=True).rows
    [questions] = peers[0].calls
    two, four = RIGHT.steps, OTHER.steps
    assert ["".join(one.prefix) for one in questions] == [
        *("", two[0], "".join(two), "".join(four[:2]), "".join(four)),
        *("".join(four[:kept]) for kept in range(5)),
        *("", two[0], two[0], "".join(two)),
    ]
    assert [one.problem for one in questions] == [RIGHT.problem] * 5 + [OTHER.problem] * 9
    assert len({seed for one in questions for seed in one.seeds}) == 14 * 3
    assert peers[0].calls == peers[1].calls
    assert rows[0]["continuations"]["x"][1][0] == {"text": "8*3=24", "right": True, "error": None}
    assert rows[0]["peers"]["x"]["success"] == [0.0, 1.0, 1.0]
    assert rows[0]["peers"]["x"]["shuffled"]["success"] == [0.0] * 3
    assert rows[0]["peers"]["x"]["shuffled"]["kept"] == [0, 1, 2]


def test_continuations_without_a_score(tmp_path):
    """Two of four are lost, so success is 0 of 2. Wilson's bounds of 0 of 2 at 95 % with z = 1.96 are 0 and
    z^2 / (2 + z^2) = 0.6576. Where no seed of a prefix is answered, success and both lifts are unknown."""

    def write(prefix, seed):
        lost = prefix == RIGHT.steps[0] or (prefix == "" and not seed % 2)
        return None if lost else ""

    found = probe([ScriptedPeer(name="p", write=write)], tmp_path / "out.jsonl", [RIGHT], samples=4)
    figures = found.rows[0]["peers"]["p"]
    assert figures["success"] == [0.0, None, 1.0]
    assert figures["lift"] == [None] * 3
    assert figures["failed"] == [2, 4, 0]
    assert figures["high"][:2] == [pytest.approx(0.6576, abs=1e-4), None]
    assert found.notes == [
        "classmate p: 6 continuations have no score: the script gave no answer (6)"
    ]


def test_a_peer_that_draws_nothing_stops_the_probe(tmp_path):
    """One line with the peer and the first reason; but where no prefix leaves room, asking again would not help."""
    silent = ScriptedPeer(name="p", write=lambda _prefix, _seed: None)
    with pytest.raises(ReasonloopError, match=r"classmate p: .*the script gave no answer"):
        probe([silent], tmp_path / "out.jsonl")

    class ShortPeer(ScriptedPeer):
        def answer(self, questions, *_, **__):
            return [[Completion.failed(f"{NO_ROOM}3 tokens")] * len(one.seeds) for one in questions]

    found = probe([ShortPeer(name="p", write=None)], tmp_path / "short.jsonl")
    assert f"{NO_ROOM}3 tokens (480)" in found.notes[0]


SUM = {"kind": "countdown", "numbers": [3, 5, 3], "target": 24, "text": "3+5=8\n8*3=24"}
WORDS = {"gold": "18", "question": "What is 9 + 9?", "text": "9 + 9 is\n\n18.\nSo 18."}


def written(tmp_path, *lines):
    path = tmp_path / "chains.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def test_the_steps_of_a_line(tmp_path):
    """Two lines of Countdown are two steps, which joined are the text."""
    [chain] = read_chains(written(tmp_path, {"id": "a", **SUM}), step="\n")
    assert [*chain.steps] == ["3+5=8\n", "8*3=24"]
    assert (chain.id, chain.problem.gold.target) == ("a", 24)


def test_another_separator(tmp_path):
    """The same text is one step where steps end with an empty line that it lacks."""
    [chain] = read_chains(written(tmp_path, {"id": "a", **SUM}), step="\n\n")
    assert [*chain.steps] == [SUM["text"]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no chains"),
        ([{"id": "a", **SUM}] * 2, ":2: id: 'a' is also at line 1"),
        ([{"problem_id": "a", **SUM}, {"id": "a#0", **SUM}], ":2: id: 'a#0' is also at line 1"),
        ([{"id": "a", **SUM, "text": None}], "'a': text: has no step"),
        ([{"id": "a", **SUM, "text": " \n "}], "'a': text: has no step"),
        ([{"id": "a", **SUM, "text": "3+5=8\ud800"}], "'a': text: has a lone surrogate"),
        ([{"id": "a", **SUM, "question": "\ud800"}], "'a': question: has a lone surrogate"),
        ([{"id": "a", "kind": "countdown", "text": "x"}], ":1: numbers"),
        ([{"id": "a", **SUM, "kind": "chess"}], ":1: kind='chess'"),
    ],
)
def test_unusable_files(tmp_path, lines, message):
    """File, line or id, and remedy in one line."""
    with pytest.raises(BadInputError) as caught:
        read_chains(written(tmp_path, *lines), step="\n")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_prompt_of_the_gold_needs_no_question(tmp_path):
    """Countdown without a question: a base model's prompt is `3,5,3=24`, a chat model's is in words."""
    chains = read_chains(written(tmp_path, {"id": "a", **SUM}), step="\n")
    check_questions(chains, None, peer="base")
    with pytest.raises(
        BadInputError, match=r"'a': question: is missing, and classmate chat .*words"
    ):
        check_questions(chains, PlainTurns(), peer="chat")


def test_a_prompt_in_words_needs_a_question(tmp_path):
    """Math has no compact prompt: without a question even a base model's prompt cannot be rendered."""
    asked, bare = {"id": "a", **WORDS}, {"id": "b", **WORDS, "question": ""}
    chains = read_chains(written(tmp_path, asked, bare), step="\n")
    check_questions(chains[:1], None, peer="base")
    with pytest.raises(BadInputError, match="'b': question"):
        check_questions(chains, None, peer="base")


def test_donors_are_of_other_problems(tmp_path):
    """Three chains of problem p and three of q: each has a donor of the other problem, the same for a seed."""
    lines = [{"id": f"{p}{n}", "problem_id": p, **SUM} for p in "pq" for n in range(3)]
    chains = read_chains(written(tmp_path, *lines), step="\n")
    found = donors(chains, seed=7)
    assert {name[0] + donor.id[0] for name, donor in found.items()} == {"pq", "qp"}
    assert len(found) == 6
    assert found == donors(chains, seed=7)
    assert any(found != donors(chains, seed=seed) for seed in range(8))
    with pytest.raises(BadInputError, match="--shuffled: all chains are of problem 'p'"):
        donors(chains[:3], seed=7)


EVALUATE = EvaluateParams(resamples=200)


def probed(name, *success, problem=None, leak=None, shuffled=None):
    """A chain with one step fewer than ``success``, which is by kept steps, and its output line."""
    steps = [f"{number}\n" for number in range(1, len(success))]
    of = Problem(id=problem or name, question="?", gold=MathGold(answer="1"), source="test")
    figures = {"success": success, "low": success, "high": success}
    if shuffled:
        figures["shuffled"] = {"success": shuffled}
    row = {"id": name, "peers": {"p": figures}, "leak": leak or [False] * len(success)}
    return Chain(id=name, problem=of, steps=steps), row


def together(*pairs):
    chains, rows = zip(*pairs, strict=True)
    return Probed(chains=chains, rows=rows)


def study_of(*pairs):
    return probe_study(together(*pairs), EVALUATE, seed=7)


def curve(study, base="chain", measure="held-out peer"):
    return [
        (one.arm.removeprefix(f"{base} "), one.n, one.value)
        for one in study.points
        if one.measure == measure and one.arm.startswith(f"{base} ")
    ]


def test_chains_are_aligned_by_their_kept_share():
    """2 steps with successes 0, 1/2, 1 and 4 steps with 1, 1, 0, 0, 1. At 25 % they keep 0 and 1 steps,
    (0 + 1) / 2; at 50 % 1 and 2, (1/2 + 0) / 2; at 75 % 1 and 3, the same; at 100 % (1 + 1) / 2."""
    study = study_of(probed("a", 0.0, 0.5, 1.0), probed("b", 1.0, 1.0, 0.0, 0.0, 1.0))
    assert [value for _, _, value in curve(study, "chain peer=p")] == [0.5, 0.5, 0.25, 0.25, 1.0]
    assert [one.value for one in study.differences] == [0, -0.25, -0.25, 0.5]
    assert {one.reference for one in study.differences} == {"chain peer=p share=0"}


def test_chains_of_one_problem_are_averaged_first():
    """Three chains of problem a succeed, one of b does not: 1/2 over two problems, not 3/4."""
    chains = [probed(f"a{n}", 1.0, 1.0, problem="a") for n in range(3)]
    assert curve(study_of(*chains, probed("b", 0.0, 0.0)), "chain peer=p") == [
        ("share=0", 2, 0.5),
        ("share=1", 2, 0.5),
    ]


def test_a_chain_without_a_score_is_left_out_at_that_share():
    """Of two problems one has no verdict on its whole chain: the mean there is the other's, 1."""
    study = study_of(probed("a", 0.0, 1.0), probed("b", 0.0, None))
    assert curve(study, "chain peer=p") == [("share=0", 2, 0.0), ("share=1", 1, 1.0)]


def test_the_control_and_leaks_have_curves_of_their_own():
    """Own prefixes succeed, those of another chain do not; at half of two steps one of two answers is given away."""
    first = probed("a", 0.0, 1.0, 1.0, leak=[False, True, True], shuffled=[0.0] * 3)
    second = probed("b", 0.0, 1.0, 1.0, leak=[False, False, True], shuffled=[0.0] * 3)
    study = study_of(first, second)
    assert [value for _, _, value in curve(study, "chain peer=p")] == [0.0, 1.0, 1.0]
    assert [value for _, _, value in curve(study, "shuffled")] == [0.0] * 3
    assert curve(study, measure="given away") == [
        ("share=0", 2, 0.0),
        ("share=.5", 2, 0.5),
        ("share=1", 2, 1.0),
    ]


@pytest.mark.parametrize(
    ("steps", "shares"),
    [([1], [0.0, 1.0]), ([2], [0.0, 0.5, 1.0]), ([4], [0.0, 0.25, 0.5, 0.75, 1.0])],
)
def test_shares_that_keep_the_same_steps_are_one_point(steps, shares):
    """25 % of two steps is the empty prefix, 75 % is the first step as 50 % is."""
    assert distinct_shares(steps) == shares


def test_steps_by_lift():
    """Lifts 1 and -1/2 of a, 0 of b: the largest first. The first step of a gives the answer away, the second only
    follows it. A step without both scores is none."""
    first = probed("a", 0.0, 1.0, 0.5, leak=[False, True, True])
    rows = lift_table(together(first, probed("b", 1.0, 1.0), probed("c", 1.0, None))).rows
    assert [(row[0], row[1], row[4]) for row in rows] == [
        ("a", "1 of 2", "+100.0 *"),
        ("b", "1 of 1", "0.0"),
        ("a", "2 of 2", "\N{MINUS SIGN}50.0"),
    ]


@pytest.mark.parametrize(("steps", "shown"), [(21, 20), (15, 15)])
def test_both_ends_of_a_long_list(steps, shown):
    """Of 21 steps all but the middle one; of 15 each step once."""
    rows = lift_table(together(*(probed(f"c{n}", 0.0, n / 30) for n in range(steps)))).rows
    ids = [row[0] for row in rows]
    assert len(ids) == len({*ids}) == shown
    assert (ids[0], ids[-1], "c10" in ids) == (f"c{steps - 1}", "c0", steps == 15)


def test_the_page_escapes_text_and_requests_nothing(tmp_path):
    """Curve, steps and chains in one file; an id with markup is text."""
    found = together(
        probed("a<b>", 0.0, 1.0, 1.0, leak=[False, False, True]), probed("b", 1.0, 0.0)
    )
    path = tmp_path / "probe.html"
    study = probe_study(found, EVALUATE, seed=7)
    write_page(path, study, probe_page(found, study))
    page = path.read_text("utf-8")
    assert "a&lt;b&gt;" in page
    assert "a<b>" not in page
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert page.count("<span>gives the answer away</span>") == 1
    assert "data:image/svg+xml" in page
