"""`reasonloop power`: what it prints, and what it refuses."""

import json

import pytest


def test_power_shows_the_problems_of_each_plan(called):
    """More paths need fewer problems; a spread over seeds of 3 points needs more seeds than 2."""
    done = called("power", "--difference", "3", "--accuracy", "60", "--json")
    needed = [plan["problems"] for plan in json.loads(done.stdout)["plans"]]
    assert needed == sorted(needed, reverse=True)
    assert called("power", "--difference", "3", "--accuracy", "60").returncode == 0
    few = ("--difference", "3", "--accuracy", "60", "--seeds", "2", "--seed-spread", "3")
    assert "take more seeds" in called("power", *few).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--difference", "3"], "give either --accuracy, in percent, or --recorded"),
        (["--difference", "3", "--accuracy", "98"], "both accuracies in 0 to 100"),
        (["--difference", "0", "--accuracy", "50"], "give a gain"),
        (["--difference", "3", "--recorded", "out"], "no such file"),
    ],
)
def test_bad_arguments_are_one_line(refused, tmp_path, monkeypatch, arguments, words):
    """Exit code 2."""
    monkeypatch.chdir(tmp_path)
    assert words in refused("power", *arguments)
