"""The page: self-contained, safe against what models write, readable by machines that read aloud."""

import csv
import dataclasses
import re

import pytest

from pipeline_lib.params.evaluate import EvaluateParams
from pipeline_lib.study.pages.wording import EMPTY
from pipeline_lib.study.policies import Flips, score_policy
from pipeline_lib.study.study import Arm
from pipeline_lib.systems.loop.compute import spent_table
from pipeline_lib.systems.loop.report import PAPER, status_table, write_report
from pipeline_lib.systems.loop.reporting.control_text import limits_of_claim
from pipeline_lib.train.control_report import ControlReport
from tests.unit.study.judged_groups import judged_group
from tests.unit.systems.loop.reporting.demo_report import HOSTILE, demo_input
from tests.unit.systems.loop.reporting.html_page import Page


@pytest.fixture(scope="module")
def source():
    return demo_input(30, resamples=100)


@pytest.fixture(scope="module")
def written(source, tmp_path_factory):
    return write_report(source, tmp_path_factory.mktemp("reports"), revision={})


@pytest.fixture(scope="module")
def page(written):
    return Page(written.read_text(encoding="utf-8"))


def test_model_output_stays_text(page):
    """A path that closes its element and opens a script is shown letter by letter."""
    assert HOSTILE in page.text
    assert not page.all("script")
    assert all(
        attributes["src"].startswith("data:image/svg+xml;base64,") for attributes in page.all("img")
    )


def test_nothing_can_leave_the_machine(page):
    """The page's own policy forbids every request, and nothing in it would make one."""
    policy = next(a["content"] for a in page.all("meta") if "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    targets = [a[name] for _, a in page.elements for name in ("src", "href", "action") if name in a]
    assert targets
    targets.remove(PAPER.url)  # a link to open, which loads nothing by itself
    assert all(target.startswith(("data:", "#")) for target in targets)


def test_links_and_ids_belong_together(page):
    """Every section link has its target, and ids are unique."""
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for a in page.all("a") if a["href"] != PAPER.url} <= set(ids)


def test_it_can_be_read_aloud(page, written):
    """One h1, a caption in every table, words for every picture, a language, a name in every head."""
    assert len(page.all("h1")) == 1
    assert len(page.all("caption")) == len(page.all("table")) > 5
    assert all(attributes["alt"] for attributes in page.all("img"))
    assert page.all("html")[0]["lang"] == "en"
    assert {a["scope"] for a in page.all("th")} == {"row", "col"}
    assert "></th>" not in written.read_text(encoding="utf-8")


def test_title_and_headline_are_the_finding(page):
    """The first thing to read is what the loop adds to the control."""
    assert re.fullmatch(r"Policy gains [\d.]+ points of pass@1 over control", page.heading)
    assert re.search(r"95 % interval \+[\d.]+ to \+[\d.]+", page.text)


def test_the_control_and_what_limits_the_claim_are_told(page):
    """Training of the control, early stopping of the base, compute of both, unseen numbers."""
    words = " ".join(page.text.split())
    assert (
        "990 worked problems (1895 solutions; 1890 steps over schedules of three lengths)" in words
    )
    assert "pass@1 of control is" in words
    assert "The base was stopped early: more supervised steps lower this loss" in words
    assert "Control and loop took 222 and 212 CPU seconds" in words
    assert "No training problem has the numbers of any of the 30 held-out problems." in words
    assert "Compute of the loop (sampling, verifying, training) and of the control" in words


def test_a_control_that_is_none_is_said_to_be_the_base(source):
    """Without worked solutions the base is the control."""
    bare = dataclasses.replace(source, control=ControlReport(is_base=True))
    assert "no worked solutions" in limits_of_claim(bare)[0]


def test_evaluated_problems_of_a_training_come_first(source):
    """Before all that limits the claim."""
    loud = "NOT HELD OUT: 3 of 30 evaluated problems were in a training of the base."
    assert limits_of_claim(dataclasses.replace(source, trained_on=[loud]))[0] == loud


def spending(source, side, **changed):
    """The run with another compute of loop or control."""
    compute = source.study.compute
    compute = {**compute, side: compute[side] | changed}
    return dataclasses.replace(source, study=dataclasses.replace(source.study, compute=compute))


def test_a_control_with_less_compute_is_not_called_equal(source):
    """222 CPU seconds beside a loop of 444 are 50 %; 95 % and more count as equal."""
    for seconds, is_unequal in ((443.8, True), (233.0, False)):
        sentences = " ".join(limits_of_claim(spending(source, "loop", cpu_seconds=seconds)))
        words = sentences.replace("\N{NO-BREAK SPACE}", " ")
        assert ("not of equal compute: it had 50.0 % of the CPU seconds" in words) is is_unequal


@pytest.mark.parametrize("side", ["loop", "control"])
def test_seconds_of_another_workspace_are_unknown(source, side):
    """Neither zero nor equal: title, sentences and table say that they are not known."""
    other = spending(source, side, cpu_seconds=None, gpu_seconds=None)
    sentences = " ".join(limits_of_claim(other))
    assert "Control and loop trained on" in sentences
    assert "done in another workspace" in sentences
    rows = {name: cells for name, *cells in spent_table(other.study.compute).rows}
    assert rows["CPU time"][["loop", "control"].index(side)] == EMPTY


def test_the_revision_is_shown_where_there_is_one(page, source, tmp_path):
    """Commit, changes and lock in a table of their own; without a repository no table."""
    assert "Revision that wrote this report" not in page.text
    revision = {"commit": "4814b06", "uncommitted changes": "params.yaml"}
    written = write_report(source, tmp_path, revision=revision)
    text = written.read_text(encoding="utf-8")
    assert "Revision that wrote this report" in text
    assert all(value in text for value in revision.values())


def preparing(source, **changed):
    """The run with another report on its problems."""
    return dataclasses.replace(source, preparation={**source.preparation, **changed})


def test_shared_templates_are_told(source):
    """Of 30 held-out word problems 12 have a template of their own."""
    for unseen, words in (
        (12, "18 of the 30 held-out problems have a template of training problems"),
        (30, "No training problem has the template of any of the 30"),
    ):
        found = preparing(source, unseen_templates=unseen)
        assert limits_of_claim(found)[-1].startswith(words)


def test_a_given_base_was_not_stopped_by_us(source):
    """Nothing is known of how long it was trained."""
    given = dataclasses.replace(source.control, base_is_given=True)
    sentences = " ".join(limits_of_claim(dataclasses.replace(source, control=given)))
    assert "stopped early" not in sentences
    assert "More supervised steps lower this loss" in sentences


def test_shared_runs_of_words_are_shown_to_be_looked_at(page, source, tmp_path):
    """The table names test problem, train problem and words; without any it is left out."""
    assert "countdown-train-0031" in page.text
    assert "is read at a rate of pages" in page.text
    run = preparing(source, overlap={"touched_test": 0, "samples": []})
    clean = write_report(run, tmp_path, revision={})
    assert "shared words" not in clean.read_text(encoding="utf-8")


def test_the_examples_are_as_many_as_asked_for(page, source):
    """12 problems were asked for: 12 can be opened, the first one is."""
    terms, *details = page.all("details")
    assert "open" not in terms
    assert len(details) == source.params.report.num_examples
    assert [("open" in attributes) for attributes in details[:2]] == [True, False]


def test_plots_and_their_data_are_files(written):
    """Each figure is an SVG file, and the curves can be read as CSV."""
    assert {path.name for path in (written.parent / "plots").glob("*.svg")} >= {
        "pass_at_k.svg",
        "training_loss.svg",
    }
    assert all(
        path.read_text(encoding="utf-8").startswith("<?xml")
        for path in (written.parent / "plots").glob("*.svg")
    )
    curves = written.parent / "plots" / "pass_at_k.csv"
    rows = list(csv.DictReader(curves.read_text(encoding="utf-8").splitlines()))
    assert [(row["policy"], row["k"]) for row in rows[:4]] == [("base", k) for k in "1248"]
    assert [row["policy"] for row in rows[4:]] == ["control"] * 4 + ["policy"] * 4


def test_a_run_without_training_log_or_examples_has_a_report_too(source, tmp_path):
    """Sections without content are left out rather than empty."""
    bare = dataclasses.replace(source, training_log=[], groups={"base": [], "trained": []})
    files = write_report(bare, tmp_path, revision={})
    page = Page(files.read_text(encoding="utf-8"))
    assert {a.get("id") for a in page.all("section")}.isdisjoint({"training", "examples"})
    assert [path.name for path in tmp_path.rglob("*.csv")] == ["pass_at_k.csv"]


def test_the_same_input_gives_the_same_page(source, written, tmp_path):
    """No date and no random id: two reports of one run are equal byte for byte."""
    again = write_report(source, tmp_path, revision={})
    assert again.read_bytes() == written.read_bytes()


def test_test_time_compute_has_a_section(source, page, tmp_path):
    """Figures, tables and a link to them; without curves neither section nor link."""
    study = dataclasses.replace(source.study, system="test-time compute of trained")
    other = dataclasses.replace(source, test_time={"trained": study})
    shown = Page(write_report(other, tmp_path, revision={}).read_text("utf-8"))
    link = {"href": "#test-time-compute-of-trained"}
    assert link in shown.all("a")
    assert link not in page.all("a")
    assert len(shown.all("img")) == len(page.all("img")) + 3


def test_flips_are_cut_but_counted():
    """The caption has all flips, the rows at most the limit each way."""
    base, trained = dict.fromkeys("abc", 0.0), dict.fromkeys("abc", 1.0)
    table = Flips.between(base, trained).table(limit=2)
    assert "3 gained, 0 lost" in table.caption
    assert [row[:2] for row in table.rows] == [("a", "gained"), ("b", "gained")]


def test_our_failures_have_a_row_of_their_own():
    """Of 4 base paths 2 were not judged, of the policy's 1."""
    params = EvaluateParams(num_paths=4, ks=(1, 2), resamples=100)
    counts = {
        name: score_policy(Arm(base=name), [judged_group("a", letters)], params).counts
        for name, letters in (("base", "cwxx"), ("policy", "ccwe"))
    }
    statuses = {row[0]: row[1:] for row in status_table(counts).rows}
    assert statuses["of these, not scored"] == ("2", "1")
    assert statuses["correct"] == ("1", "2")


def test_every_row_is_as_wide_as_its_header(page, written):
    """No table of the page has a ragged row."""
    for table in re.findall(r"<table.*?</table>", written.read_text("utf-8"), re.DOTALL):
        rows = [len(re.findall(r"<t[hd][ >]", row)) for row in table.split("<tr")[1:]]
        assert len(set(rows)) == 1
