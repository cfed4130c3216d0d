"""Artifacts prove themselves: any flipped bit is found before a number of them is used."""

from __future__ import annotations

import os
import shutil
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from artifacts.editing import match_files
from safetensors.numpy import save_file
from typer.testing import CliRunner

from tastespace import load, save, storage
from tastespace.artifact import saving
from tastespace.cli.main import program
from tastespace.errors import ArtifactError
from tastespace.randomness import generator

HERE = Path(__file__).parent
FORMAT_2 = HERE / "format-2"
FLIPS = int(os.environ.get("TASTESPACE_FLIPS", "60"))  # in all files together; `make faults` makes 500


def save_all(folder: Path) -> list[Path]:
    """Artifacts of five kinds: points with an index, draws, neighbors, and two with several parts."""
    names = ["als-found-strength-indexed", "bpmf", "item-knn", "joint", "blend"]
    for name in names:
        save(load(FORMAT_2 / name), folder / name)  # as they are written now
    return [folder / name for name in names]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    return save_all(tmp_path_factory.mktemp("artifacts"))


@pytest.fixture
def saved(artifacts, tmp_path):
    """One that may be changed."""
    return Path(shutil.copytree(artifacts[0], tmp_path / "model"))


def doctor(path: Path, *options: str):
    return CliRunner().invoke(program("doctor"), ["doctor", str(path), *options])


def flip(file: Path, bit: int) -> None:
    """Another value of one bit, with everything as before that a system says of a file."""
    status, content = file.stat(), bytearray(file.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    with file.open("r+b") as stream:
        stream.write(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def is_refused(path: Path) -> bool:
    """Whether an artifact does not load, or is used without its index with a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            load(path)
        except ArtifactError:
            return True
    return any("is used without its index" in str(warning.message) for warning in caught)


def count_found(artifacts, folder: Path, n_flips: int, look) -> list[str]:
    """The flips that were not found, of so many random ones over all files of all artifacts."""
    rng, missed = generator(4), []
    files = [file for path in artifacts for file in sorted(path.iterdir())]
    for n in range(n_flips):
        file = files[rng.integers(len(files))]
        bit = int(rng.integers(8 * file.stat().st_size))
        copy = Path(shutil.copytree(file.parent, folder / f"{n}"))
        if not look(copy, copy / file.name, bit):
            missed.append(f"{file.parent.name}/{file.name}, bit {bit}")
        shutil.rmtree(copy)
    return missed


def before_the_first_check(copy: Path, file: Path, bit: int) -> bool:
    flip(file, bit)
    return is_refused(copy)


def under_doctor(copy: Path, file: Path, bit: int) -> bool:
    """After it was found whole, and with the same size, time and place: only reading it all tells."""
    load(copy)
    flip(file, bit)
    return doctor(copy).exit_code == 1


@pytest.mark.parametrize("look", [before_the_first_check, under_doctor])
def test_every_flipped_bit_is_found(artifacts, tmp_path, look):
    assert not count_found(artifacts, tmp_path, FLIPS, look)


def test_a_test_that_trusts_misses_flips(artifacts, tmp_path, monkeypatch):
    """The broken twin: without checksums most flips are answered with."""
    monkeypatch.setattr(storage, "changed_files", lambda *given: [])
    monkeypatch.setattr(saving, "check_manifest", lambda *arguments: None)
    assert len(count_found(artifacts, tmp_path, FLIPS, before_the_first_check)) > FLIPS // 4


def test_a_trusted_artifact_is_not_read_again_until_the_doctor_finds_it_damaged(saved):
    load(saved)
    flip(saved / "posterior.safetensors", 8 * (saved / "posterior.safetensors").stat().st_size - 1)
    load(saved)  # Size, time and place agree: what was found before is trusted.
    assert "posterior.safetensors has another checksum" in doctor(saved).output
    with pytest.raises(ArtifactError, match="another checksum"):
        load(saved)  # Now it is known.


def test_the_doctor_says_what_it_read(artifacts):
    told = doctor(artifacts[-1])
    assert told.exit_code == 0
    assert "blend, format 2" in told.output
    assert "checksums agree" in told.output
    assert "the index fits the model" in doctor(artifacts[0]).output


def test_the_doctor_of_an_old_artifact_says_what_it_cannot_know(tmp_path):
    old = HERE / "format-1" / "als-found-strength"
    told = doctor(Path(shutil.copytree(old, tmp_path / "old")))
    assert told.exit_code == 0
    assert "has no checksums" in told.output


def test_long_files_are_digested_in_blocks_by_all_cores(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "BLOCK", 1000)
    content = generator(0).bytes(2500)
    (tmp_path / "long").write_bytes(content)
    long = storage.checksum_of(tmp_path / "long")
    assert long.startswith("blocks:")
    assert storage.copy(tmp_path / "long", tmp_path / "copy") == long
    assert (tmp_path / "copy").read_bytes() == content
    plain = storage.digest_of(tmp_path / "long")
    assert not storage.changed_files({tmp_path / "long": long, tmp_path / "copy": plain})
    for place in (0, 999, 1000, 2499):
        flip(tmp_path / "long", 8 * place)
        assert storage.changed_files({tmp_path / "long": long}) == [tmp_path / "long"]
        flip(tmp_path / "long", 8 * place)


# plausibility: where checksums are right, or there are none


def set_value(path: Path, name: str, place: int, value: float) -> None:
    arrays = {key: np.array(array) for key, array in storage.read_arrays(path).items()}
    arrays[name].reshape(-1)[place] = value
    save_file(arrays, path)


CANNOT_BE = [("posterior", "mean", np.nan)]  # Infinity among few numbers may say that there is no limit.
CANNOT_BE += [("posterior", "item_factors", value) for value in (np.nan, np.inf, -np.inf, 1e36)]
CANNOT_BE += [("ratings", "values", value) for value in (np.nan, np.inf, -1e36)]


@pytest.mark.parametrize(("file", "name", "value"), CANNOT_BE)
def test_values_that_cannot_be_are_refused(saved, file, name, value):
    set_value(saved / f"{file}.safetensors", name, 0, value)
    match_files(saved)
    with pytest.raises(ArtifactError, match=f"{file}.safetensors has numbers in {name} that are not finite"):
        load(saved)


def test_a_flipped_exponent_of_an_old_artifact_is_noticed(tmp_path):
    """Format 1 has no checksums: one bit used to put the same item first for everybody, with a score of 1e36."""
    old = HERE / "format-1" / "als-found-strength"
    copy = Path(shutil.copytree(old, tmp_path / "old"))
    file = copy / "posterior.safetensors"
    (value,) = struct.unpack("<f", file.read_bytes()[-4:])
    assert 1e-6 < abs(value) < 2
    flip(file, 8 * file.stat().st_size - 2)
    with pytest.raises(ArtifactError, match="not finite or too large"):
        load(copy)


@pytest.mark.parametrize("first", [1, -1])
def test_offsets_begin_with_zero(saved, first):
    set_value(saved / "ratings.safetensors", "offsets", 0, first)
    match_files(saved)
    with pytest.raises(ArtifactError, match="not in the order of the users"):
        load(saved)
