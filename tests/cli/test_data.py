"""`tastespace data`: list, get, describe, as a person runs them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile

import polars as pl
import pytest
from cli.program import tastespace

from tastespace.data.sources import SOURCES

RATED = "userId,movieId,rating,timestamp\n1,10,4.0,964982703\n1,20,2.5,964982704\n2,10,5.0,964982705\n"
FILMS = "movieId,title,genres\n10,Heat (1995),Action|Crime\n20,Casino (1995),Crime\n"


@pytest.fixture
def run(tmp_path):
    """The program with a cache of its own."""

    def run(*arguments, **environment):
        own = {"TASTESPACE_CACHE": str(tmp_path / "cache")}
        return tastespace("data", *arguments, cwd=tmp_path, **own | environment)

    return run


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "copy.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("ml-25m/ratings.csv", RATED)
        zipped.writestr("ml-25m/movies.csv", FILMS)
    return path


def one_message(result, *parts):
    assert result.returncode == 1, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    for part in parts:
        assert part in last, (part, last)


def test_list_shows_every_data_set_and_where_the_cache_is(run, tmp_path):
    result = run("list")
    assert result.returncode == 0
    for name, source in SOURCES.items():
        line = next(line for line in result.stdout.splitlines() if line.startswith(f"{name} "))
        assert f"{source.n_ratings:,}" in line
        assert source.description in line
    assert f"cache: {tmp_path / 'cache'}" in result.stdout
    assert "next: tastespace data get NAME" in result.stdout


def test_list_for_programs(run, tmp_path):
    listed = json.loads(run("list", "--json", "--cache", tmp_path / "other").stdout)
    assert listed["cache"] == str(tmp_path / "other")
    assert [entry["name"] for entry in listed["data_sets"]] == list(SOURCES)
    entry = next(entry for entry in listed["data_sets"] if entry["name"] == "ml-100k")
    assert entry["url"] == "https://files.grouplens.org/datasets/movielens/ml-100k.zip"
    assert entry["checksum"] == "md5:0e33842e24a9c977be4e0107933c0723"
    assert entry["cached"] is False


def test_get_from_a_file_shows_the_terms_and_the_next_step(run, archive, tmp_path):
    result = run("get", "ml-25m", "--from", archive)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[1] == f"terms: {SOURCES['ml-25m'].terms}"
    assert lines[-2] == f"3 ratings by 2 users of 2 items in {tmp_path / 'cache' / 'ml-25m' / 'files'}"
    assert lines[-1] == "next: tastespace fit ml-25m --out MODEL"
    first, second = result.stderr.splitlines()
    assert re.fullmatch(r"warning: .*copy\.zip is not the published archive: its md5 is .*", first)
    assert second == "warning: 3 ratings were read, but ml-25m has 25,000,095: is this the right one?"
    assert archive.exists()
    again = run("get", "ml-25m")
    assert again.returncode == 0
    assert "published" not in again.stderr
    assert "here" in next(line for line in run("list").stdout.splitlines() if line.startswith("ml-25m"))


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_get_writes_the_ratings_where_they_are_wanted(name, run, archive, tmp_path):
    result = run("get", "ml-25m", "--from", archive, "--out", name, "--json")
    told = json.loads(result.stdout)
    assert (told["out"], told["ratings"]["n_ratings"], told["terms"]) == (name, 3, SOURCES["ml-25m"].terms)
    assert told["files"] == str(tmp_path / "cache" / "ml-25m" / "files")
    table = pl.read_csv(tmp_path / name) if name.endswith("csv") else pl.read_parquet(tmp_path / name)
    assert table["rating"].to_list() == [4.0, 2.5, 5.0]
    described = json.loads(run("describe", name, "--json").stdout)
    assert described["ratings"]["n_ratings"] == 3


def test_get_says_what_is_wrong(run, archive, tmp_path):
    one_message(run("get", "ml-1b"), "there is no data set 'ml-1b'", "ml-100k")
    one_message(run("get", "netflix"), "withdrew it in 2010", "data get netflix --from FILE")
    one_message(run("get", "ml-25m", "--from", "none.zip"), "none.zip: there is no such file")
    one_message(
        run("get", "ml-25m", "--from", archive, "--out", "x.xlsx"),
        "the suffix '.xlsx' is of no known format",
        "or .parquet",
    )
    one_message(run("get", "jester", "--from", archive), "there are no ratings in it", "jester_ratings.dat")
    one_message(run("get", "ml-25m", "--from", archive, "--out", "nowhere/x.csv"), "the folder does not exist")
    (tmp_path / "file").write_text("")
    one_message(run("get", "ml-25m", "--from", archive, "--cache", tmp_path / "file"), "cannot be written", "--cache")
    failed = run("get", "ml-1b", "--json")
    assert json.loads(failed.stdout)["error"]["type"] == "InvalidParameterError"


def test_get_without_a_network_says_so(run, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # A proxy at which nobody listens: the program has no way out.
    proxy = f"http://127.0.0.1:{port}"
    result = run("get", "ml-100k", https_proxy=proxy, HTTPS_PROXY=proxy, no_proxy="", NO_PROXY="")
    one_message(result, "cannot be reached", "--from")


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_an_interrupted_download_says_that_it_can_be_continued(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        answered = threading.Event()

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                head = b'HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\nETag: "v1"\r\n\r\n'
                connection.sendall(head + b"x" * 5000)
                answered.set()
                connection.recv(1)  # until the program has gone

        thread = threading.Thread(target=answer)
        thread.start()
        code = (
            "from dataclasses import replace; import tastespace.data.sources as s\n"
            "from tastespace.cli.main import run\n"
            "source = s.SOURCES['ml-25m']\n"
            f"archive = replace(source.archive, url='http://127.0.0.1:{server.getsockname()[1]}/x.zip')\n"
            "s.SOURCES['ml-25m'] = replace(source, archive=archive)\n"
            "run()"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, "data", "get", "ml-25m", "--cache", str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"no_proxy": "127.0.0.1"},
        )
        assert answered.wait(60)
        part = tmp_path / "ml-25m" / "x.zip.part"
        until = time.monotonic() + 20
        while not part.exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=30)
        thread.join(10)
    assert process.returncode == 130
    assert complaint == "interrupted; the part downloaded so far is kept, run it again to continue\n"
    assert part.read_bytes() == b"x" * 5000


def test_describe_shows_how_a_file_would_be_read(run, tmp_path):
    (tmp_path / "odd.csv").write_text("who;what;how;comment\nann;tea;5;fine\nbob;jam;3;\n")
    (tmp_path / "names.csv").write_text("id,title\ntea,Green tea\njam,Plum jam\n")
    columns = ("--user-column", "who", "--item-column", "what", "--rating-column", "how")
    result = run("describe", "odd.csv", *columns, "--items", "names.csv")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("layout   ")
    assert "semicolon" in result.stdout.splitlines()[0]
    assert "user = who" in result.stdout.splitlines()[0]
    assert re.search(r"^ratings +2$", result.stdout, re.MULTILINE)
    assert re.search(r"^titles +yes$", result.stdout, re.MULTILINE)
    told = json.loads(run("describe", "odd.csv", *columns, "--separator", ";", "--json").stdout)
    assert told["layout"]["separator"] == ";"
    assert told["layout"]["columns"] == ["who", "what", "how", "comment"]
    assert told["ratings"]["n_users"] == 2


def test_describe_knows_the_netflix_prize(run, tmp_path):
    (tmp_path / "nf").mkdir()
    (tmp_path / "nf" / "mv_0000001.txt").write_text("1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n")
    assert "Netflix Prize" in run("describe", "nf").stdout.splitlines()[0]
    told = json.loads(run("describe", "nf/mv_0000001.txt", "--json").stdout)
    assert (told["layout"]["kind"], told["ratings"]["n_ratings"]) == ("netflix", 2)


def test_describe_tells_of_a_data_set_without_downloading_it(run, archive):
    result = run("describe", "ml-25m")
    assert result.returncode == 0
    assert "25,000,095 ratings" in result.stdout
    assert "not downloaded; next: tastespace data get ml-25m" in result.stdout
    assert json.loads(run("describe", "ml-25m", "--json").stdout)["ratings"] is None
    run("get", "ml-25m", "--from", archive)
    assert re.search(r"^ratings +3$", run("describe", "ml-25m").stdout, re.MULTILINE)
    told = json.loads(run("describe", "ml-25m", "--json").stdout)
    assert (told["cached"], told["ratings"]["n_ratings"]) == (True, 3)


def test_describe_says_what_is_wrong(run):
    one_message(run("describe", "ml-100m"), "ml-100m: there is no such file")


def test_a_wrong_archive_is_noticed_by_its_size(run, archive, tmp_path):
    result = run("get", "ml-25m", "--from", archive, "--cache", tmp_path / "cache")
    assert result.returncode == 0
    assert "but ml-25m has 25,000,095: is this the right one?" in result.stderr
    assert f"next: TASTESPACE_CACHE={tmp_path / 'cache'} tastespace fit ml-25m" in result.stdout


def test_names_that_are_nearly_right(run):
    one_message(run("describe", "ml100k"), "there is no such file (did you mean the data set ml-100k?)")
    one_message(run("get", "ml-1b"), "(did you mean the data set ml-1m?)")
