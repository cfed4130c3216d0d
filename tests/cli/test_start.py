"""`tastespace fit --start`: a fit that begins from the items of another model."""

from __future__ import annotations

from cli.program import tastespace

from tastespace import load
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


def test_a_fit_begins_from_a_fitted_model(tmp_path):
    ratings, _ = tastes(60, 40, density=0.4, rng=generator(1))
    ratings.to_polars().write_csv(tmp_path / "ratings.csv")
    common = ["fit", "ratings.csv", "--model", "als", "--n-factors", 2, "--set", "regularisation=0.02"]
    assert tastespace(*common, "--out", "first", cwd=tmp_path).returncode == 0
    second = [*common, "--set", "sweeps=1"]
    assert tastespace(*second, "--out", "second", "--start", "first", cwd=tmp_path).returncode == 0
    assert tastespace(*second, "--out", "third", cwd=tmp_path).returncode == 0
    losses = {name: load(tmp_path / name).posterior_.losses for name in ("first", "second", "third")}
    assert losses["second"][0] <= 1.001 * losses["first"][-1]
    assert losses["third"][0] > 1.1 * losses["second"][0]


def test_what_cannot_be_a_start_is_said(tmp_path):
    ratings, _ = tastes(20, 15, density=0.4, rng=generator(1))
    ratings.to_polars().write_csv(tmp_path / "ratings.csv")
    assert tastespace("fit", "ratings.csv", "--model", "popular", "--out", "popular", cwd=tmp_path).returncode == 0
    fit = ["fit", "ratings.csv", "--model", "als", "--out", "out"]
    for more, said in (
        (["--start", "popular"], "start is a Popular, which has no factors in units of ratings"),
        (["--start", "nowhere"], "there is no artifact nowhere"),
        (["--start", "popular", "--checkpoint", "kept"], "expected --start or --checkpoint, not both"),
    ):
        result = tastespace(*fit, *more, cwd=tmp_path)
        assert result.returncode in {1, 2}
        assert said in " ".join(result.stderr.split())
        assert "Traceback" not in result.stderr
