"""Documents from folders, archives, tables and Reuters-21578; and everything that such sources get wrong."""

import io
import tarfile
import zipfile

import polars as pl
import pytest
import zstandard

from tastespace.content.reading import Documents, decoded, read_documents, read_reuters
from tastespace.errors import DataError

JUNK = bytes(range(256)) * 40


def test_a_folder_of_files(tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "a.txt").write_text("wheat und Mühle", encoding="utf-8")
    (tmp_path / "more" / "b.txt").write_bytes("Mühle und Weizen in einer alten Kodierung".encode("latin-1"))
    (tmp_path / "c.txt").write_text("corn", encoding="utf-16")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "junk.txt").write_bytes(JUNK)
    (tmp_path / ".hidden").write_text("no")
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    found = read_documents(tmp_path)
    assert found.ids.to_list() == ["a.txt", "c.txt", "empty.txt", "more/b.txt"]
    assert found.texts[1] == "corn"
    assert "Mühle" in found.texts[3]
    assert sorted(found.remarks) == [
        "1 set aside, empty: kept, but found by nothing: 'empty.txt'",
        "1 set aside, links that lead out of the folder: 'link.txt'",
        "1 set aside, no text: 'junk.txt'",
    ]


def test_decoding():
    assert decoded(b"\xef\xbb\xbfcorn") == "corn"
    assert decoded(b"") == ""
    assert decoded(JUNK) is None
    assert decoded(b"\x89PNG\r\n\x1a\n" + JUNK) is None


def _archive(path, members, links=()):
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            for name, content in members.items():
                packed.writestr(name, content)
        return path
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as packed:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
        for name, target in links:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            packed.addfile(entry)
    content = plain.getvalue()
    if path.name.endswith(".zst"):
        content = zstandard.ZstdCompressor().compress(content)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["texts.zip", "texts.tar", "texts.tar.zst"])
def test_archives(tmp_path, name):
    members = {"a/one.txt": b"wheat", "a/two.txt": b"corn", "junk.txt": JUNK}
    found = read_documents(_archive(tmp_path / name, members))
    assert found.ids.to_list() == ["a/one.txt", "a/two.txt"]
    assert found.remarks == ("1 set aside, no text: 'junk.txt'",)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]  # nothing was unpacked


@pytest.mark.parametrize("name", ["texts.zip", "texts.tar"])
@pytest.mark.parametrize("member", ["../../out.txt", "/etc/out.txt", "a/../../out.txt", "..\\out.txt", "C:\\out.txt"])
def test_an_archive_that_wants_out_of_its_folder_is_refused(tmp_path, name, member):
    with pytest.raises(DataError, match="leads out of the folder; expected members with names below it"):
        read_documents(_archive(tmp_path / name, {"good.txt": b"wheat", member: b"harm"}))


def test_links_in_archives_are_not_followed(tmp_path):
    found = read_documents(_archive(tmp_path / "a.tar", {"a.txt": b"wheat"}, [("b.txt", "/etc/passwd")]))
    assert found.remarks == ("1 set aside, links: 'b.txt'",)


def test_archives_that_were_made_to_fill_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("tastespace.content.files.MIN_LIMIT", 1000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.txt", b"a" * (5 << 20))
    with pytest.raises(DataError, match="more than 200 times its size"):
        read_documents(tmp_path / "bomb.zip")


@pytest.mark.parametrize("name", ["texts.zip", "texts.tar", "texts.tar.zst"])
def test_damaged_archives(tmp_path, name):
    whole = _archive(tmp_path / name, {"a.txt": b"wheat" * 1000, "b.txt": b"corn" * 3000})
    whole.write_bytes(whole.read_bytes()[:60])
    with pytest.raises(DataError, match=r"cut off or damaged|damaged"):
        read_documents(whole)


TABLE = {"movieId": [3, 7, 7, None], "name": ["A", "B", "C", "D"], "plot": ["a ship", "a bank, a loan", "x", "y"]}


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".jsonl"])
def test_tables(tmp_path, suffix):
    file, table = tmp_path / f"films{suffix}", pl.DataFrame(TABLE)
    write = {".csv": table.write_csv, ".tsv": lambda to: table.write_csv(to, separator="\t")}
    write |= {".parquet": table.write_parquet, ".jsonl": table.write_ndjson}
    write[suffix](file)
    found = read_documents(file)
    assert found.ids.to_list() == [3, 7]
    assert found.titles.to_list() == ["A", "B"]
    assert found.texts == ["a ship", "a bank, a loan"]
    assert found.material[0] == "A\nA\na ship"
    assert found.remarks == (
        "1 rows without an id were set aside",
        "1 rows with the id of an earlier row were set aside: 7",
    )
    named = read_documents(file, text=["name", "plot"], id="movieId")
    assert named.texts[0] == "A\na ship"


def test_texts_over_several_lines_and_no_ids(tmp_path):
    (tmp_path / "a.csv").write_text('story\n"a ship\nthat sank in the harbor"\n"a second one, of a bank"\n')
    found = read_documents(tmp_path / "a.csv")
    assert found.texts[0] == "a ship\nthat sank in the harbor"
    assert found.ids.to_list() == [1, 2]
    assert "numbers of the rows" in found.remarks[0]


def test_what_is_no_source(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "a.parquet").write_bytes(b"PAR1junk")
    (tmp_path / "a.doc").write_bytes(b"x")
    (tmp_path / "nothing").mkdir()
    for name, message in {
        "missing": "there is no such file",
        "a.csv": "no column looks like texts among a, b; expected a column called text",
        "a.parquet": "this Parquet file is damaged",
        "a.doc": "the file is of no known format; expected a folder or an archive of texts",
        "nothing": "there is no text",
    }.items():
        with pytest.raises(DataError, match=message):
            read_documents(tmp_path / name)
    with pytest.raises(DataError, match="there is no column 'plot'; expected one of a, b"):
        read_documents(tmp_path / "a.csv", text=["plot"])


SGML = """<!DOCTYPE lewis SYSTEM "lewis.dtd">
<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" CGISPLIT="TRAINING-SET" OLDID="5544" NEWID="1">
<TOPICS><D>cocoa</D><D>gold</D></TOPICS><TEXT>&#2;<TITLE>BAHIA &amp; COCOA</TITLE><DATELINE>SALVADOR</DATELINE>
<BODY>Showers at &lt;ABC Corp> continued &#3;</BODY></TEXT></REUTERS>
<REUTERS TOPICS="YES" LEWISSPLIT="TEST" OLDID="5545" NEWID="2"><TOPICS></TOPICS>
<TEXT TYPE="UNPROC">&#2; plain text</TEXT></REUTERS>
<REUTERS TOPICS="YES" LEWISSPLIT="TEST" OLDID="5546" NEWID="3"><TOPICS><D>gold</D></TOPICS>
<TEXT><TITLE>GOLD</TITLE><BODY>mines</BODY></TEXT></REUTERS>
"""


def test_reuters(tmp_path):
    (tmp_path / "reut2-000.sgm").write_text(SGML, encoding="latin-1")
    found = read_documents(tmp_path)
    assert isinstance(found, Documents)
    assert found.ids.to_list() == [1, 2, 3]
    assert found.titles.to_list() == ["BAHIA & COCOA", None, "GOLD"]
    assert found.texts == ["Showers at <ABC Corp> continued", "plain text", "mines"]
    assert found.attributes["topics"].to_list() == [["cocoa", "gold"], [], ["gold"]]
    assert found.attributes["split"].to_list() == ["train", None, "test"]  # without topics: in neither part
    assert read_reuters(tmp_path, "test").ids.to_list() == [3]


@pytest.mark.parametrize(("ending", "separator"), [("dat", "\t"), ("txt", ";"), ("items", "|")])
def test_a_table_may_have_any_name(tmp_path, ending, separator):
    rows = [("id", "title", "plot"), ("7", "Alien", "A crew, and a guest"), ("8", "Heat", "A robbery")]
    (tmp_path / f"films.{ending}").write_text("".join(separator.join(row) + "\n" for row in rows))
    found = read_documents(tmp_path / f"films.{ending}", text=["plot"])
    assert found.texts == ["A crew, and a guest", "A robbery"]
    assert found.ids.to_list() == [7, 8]
