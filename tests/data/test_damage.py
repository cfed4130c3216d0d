"""A damaged Parquet file is named, with what is wrong and what to do, wherever it is read."""

from __future__ import annotations

import gzip

import polars as pl
import pytest
import zstandard
from cli.program import tastespace

from tastespace import PMF, read
from tastespace.data.formats import content
from tastespace.data.formats.content import compression_of, read_plain
from tastespace.data.formats.layout import sniff
from tastespace.data.formats.streaming import RatingStream
from tastespace.data.formats.writers import write
from tastespace.errors import DataError
from tastespace.randomness import generator
from tastespace.testing.toys import tastes

FOOT = 8  # the length of the footer, and the mark at the end


@pytest.fixture
def whole(tmp_path):
    write(tastes(60, 40, rng=generator(1))[0], tmp_path / "ratings.parquet")
    return (tmp_path / "ratings.parquet").read_bytes()


def cut_off(whole):
    return whole[: len(whole) // 2]


def flipped_pages(content):
    """Bits of the first pages, behind the mark; the footer is as it was."""
    return content[:4] + bytes(byte ^ 0xFF for byte in content[4:200]) + content[200:]


def flipped_footer(content):
    return content[: -FOOT - 200] + bytes(byte ^ 0xFF for byte in content[-FOOT - 200 : -FOOT]) + content[-FOOT:]


DAMAGES = [cut_off, flipped_pages, flipped_footer]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    "use", [read, RatingStream.scan, lambda file: PMF(seed=0).fit_parquet(file)], ids=["read", "scan", "fit_parquet"]
)
def test_the_library_names_the_file_and_what_to_do(whole, damage, use, tmp_path):
    file = tmp_path / "damaged.parquet"
    file.write_bytes(damage(whole))
    with pytest.raises(DataError, match=r"damaged\.parquet: this Parquet file is .*damaged.*fetch it again"):
        use(file)


def test_a_footer_is_looked_at_with_the_layout(whole, tmp_path):
    file = tmp_path / "damaged.parquet"
    file.write_bytes(flipped_footer(whole))
    with pytest.raises(DataError, match="this Parquet file is damaged"):
        sniff(file)


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_program_ends_with_one_line(whole, damage, tmp_path):
    file = tmp_path / "damaged.parquet"
    file.write_bytes(damage(whole))
    ended = tastespace("fit", file, "--model", "bias", "--out", tmp_path / "model")
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "damaged.parquet: this Parquet file is" in ended.stderr
    assert "fetch it again" in ended.stderr
    assert not (tmp_path / "model").exists()


LINES = b"user,item,rating\n" + b"1,2,3\n" * 1_000_000
PACKED = {
    "gz": gzip.compress,
    "zst": lambda content: zstandard.compress(content[:10]) + zstandard.compress(content[10:]),
}


@pytest.mark.parametrize("suffix", PACKED)
def test_a_compressed_file_that_would_fill_memory_is_refused(suffix, tmp_path, monkeypatch):
    """A file of 128 kB took 4 GB."""
    file = tmp_path / f"ratings.csv.{suffix}"
    file.write_bytes(PACKED[suffix](LINES))
    assert read_plain(file, compression_of(file)) == LINES  # below the least limit
    monkeypatch.setattr(content, "MIN_LIMIT", 1 << 20)
    with pytest.raises(DataError, match=r"ratings\.csv\.\w+: the \w+ file holds more than [\d.]+ MB"):
        read(file)


def test_a_parquet_file_that_would_fill_memory_is_refused(tmp_path):
    file = tmp_path / "ratings.parquet"
    pl.select(user=pl.repeat(1, 2_000_000), item=pl.repeat(2, 2_000_000), rating=1.0).write_parquet(file)
    for use in (read, RatingStream.scan):
        with pytest.raises(DataError, match=r"ratings\.parquet: .* has 2,000,000 rows, in [\d,]+ bytes"):
            use(file)
