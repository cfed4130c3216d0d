"""What terminals and files get: text is shown and not obeyed, odd names work, full devices are described in words."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import polars as pl
import pytest
from cli.program import COMMAND, tastespace

from tastespace import ALS, Ratings, save
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

TITLES = [
    "[rec] (2007)",
    "a [/] b",
    "[bold]x[/bold]",
    "red\x1b[31m alert",
    "\x9b2J",
    "left\u202eright",
    "two\nlines\tand",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    ratings = tastes(20, len(TITLES), rng=generator(0))[0]
    folder = tmp_path_factory.mktemp("models") / "model"
    save(ALS(n_factors=2, regularisation=0.1, seed=0).fit(ratings.with_items(pl.Series("title", TITLES))), folder)
    return folder


def test_titles_are_text(model):
    shown = tastespace("recommend", model, "--user", "1", "-n", "7", "--include-seen").stdout
    for title in ("[rec] (2007)", "a [/] b", "[bold]x[/bold]"):
        assert title in shown


def test_control_characters_are_shown_and_not_sent(model):
    arguments = ("recommend", model, "--user", "1", "-n", "7", "--include-seen")
    shown, told = tastespace(*arguments).stdout, tastespace(*arguments, "--json")
    for title in ("red\\x1b[31m alert", "\\x9b2J", "left\\u202eright", "two\\nlines\\tand"):
        assert title in shown
    for text in (shown, told.stdout):
        assert not any(control in text for control in "\x1b\x9b\u202e")
    (user,) = json.loads(told.stdout)["users"]
    assert {entry["title"] for entry in user["items"]} == set(TITLES)  # Machines get what it is.


def test_messages_show_control_characters(model):
    told = tastespace("recommend", model, "--user", "no\x1b[2Jbody [/]", "--where", "x\x1b=1")
    assert "\x1b" not in told.stderr


def run(*arguments: str | bytes, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], stderr=subprocess.PIPE, text=True, check=False, **options)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["doctor"], ["doctor", "--json"], ["--version"]], ids=" ".join)
def test_a_full_device_is_described_in_words(arguments):
    with open("/dev/full", "w") as full:
        told = run(*arguments, stdout=full)
    assert told.returncode == 1
    assert told.stderr == "error: the output cannot be written or read (No space left on device)\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_device_is_written_to_and_not_replaced(tmp_path):
    from tastespace.storage import replace_file

    def write():
        with replace_file(Path("/dev/full")) as stream:
            stream.write(b"content")

    with pytest.raises(OSError, match="No space left"):
        write()
    assert Path("/dev/full").is_char_device()


@pytest.mark.parametrize("name", [b"m#x?y%41", b"no\xffunicode", b"[bold]*", b"two\nlines"], ids=repr)
def test_odd_names_of_folders_and_files_work(tmp_path, name):
    folder = os.fsencode(tmp_path) + b"/" + name
    os.mkdir(folder)
    ratings = tastes(10, 8, rng=generator(0))[0].to_polars()
    with open(folder + b"/ratings.csv", "wb") as file:
        ratings.write_csv(file)
    with open(folder + b"/ratings.parquet", "wb") as file:
        ratings.write_parquet(file)
    for kind in (b"csv", b"parquet"):
        model = ["fit", folder + b"/ratings." + kind, "--out", folder + b"/model", "--model", "mean"]
        told = run(*model, stdout=subprocess.DEVNULL)
        assert (told.returncode, told.stderr) == (0, "")
    told = run("doctor", folder + b"/model", stdout=subprocess.DEVNULL)
    assert (told.returncode, told.stderr) == (0, "")


def test_folders_that_cannot_be_written_are_described_in_words(tmp_path, monkeypatch):
    ratings = Ratings.from_arrays([1, 2], [1, 2], [1.0, 2.0])
    ratings.to_polars().write_csv(tmp_path / "ratings.csv")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # as for anybody but the administrator
    told = tastespace("fit", tmp_path / "ratings.csv", "--out", tmp_path / "model", "--model", "mean")
    assert told.returncode == 1
    assert "cannot be written to; choose another, or change its permissions" in told.stderr
