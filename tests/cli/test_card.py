"""`tastespace card`: a model card beside the artifact."""

from __future__ import annotations

import json

import pytest
from cli.program import tastespace

from tastespace import VB, evaluate, load, random_split, read, save
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("card")
    split = random_split(tastes(60, 40, rng=generator(4))[0], 0.2, seed=0)
    save(VB(n_factors=2, seed=0).fit(split.train), folder / "vb", measures={"held out": {"rmse": 0.9}})
    split.test.to_polars().select("user", "item", "rating").write_csv(folder / "test.csv")
    return folder


def test_a_card_says_what_it_is_where_it_is_from_and_how_good(folder):
    said = tastespace("card", folder / "vb", "--license", "CC-BY-4.0", "--json")
    assert said.returncode == 0, said.stderr
    text, model = (folder / "vb-card.md").read_text(), load(folder / "vb")
    assert json.loads(said.stdout) == {"out": str(folder / "vb-card.md"), "card": text}
    for part in ("# Model card: vb", "`vb` (VB)", model.ratings_.fingerprint(), "Licence of the model: CC-BY-4.0"):
        assert part in text
    assert "Licence of the data: not stated" in text
    assert "| held out | RMSE | 0.9000 |" in text
    assert "| `n_factors` | `2` |" in text


def test_measures_on_test_ratings(folder, tmp_path):
    ended = tastespace("card", folder / "vb", "--test", folder / "test.csv", "--out", tmp_path / "card.md")
    assert ended.returncode == 0, ended.stderr
    text, report = (tmp_path / "card.md").read_text(), evaluate(load(folder / "vb"), read(folder / "test.csv"))
    assert f"| RMSE | {report['rmse']:.4f} | " in text
    assert f"| 90 % | {100 * report.calibration['coverage_90']:.1f} % | " in text
    for line in report.summary():
        assert f"- {line}" in text
