"""Maps that cannot be kept, read or made: told or mended, never promised for ever. Each of these fails today."""

from __future__ import annotations

import os

import numpy as np
import polars as pl
import pytest
from fastapi.testclient import TestClient
from safetensors.numpy import load_file, save_file

from tastespace import ALS
from tastespace.randomness import generator
from tastespace.report.taste_map import map_content, taste_map
from tastespace.service import maps
from tastespace.service.app import create_app
from tastespace.testing.toys import gaussian


def kept_map(settings, asking):
    return settings.folder / "maps" / asking.get("/v1/model").json()["version"] / "pca.safetensors"


@pytest.mark.parametrize("left", ["own number", "nothing"])
def test_a_mark_of_an_earlier_life_blocks_nobody(client, settings, left):
    """In a container every start has the same process number; and a full disk leaves a mark without one."""
    mark = kept_map(settings, client).with_suffix(".making")
    mark.parent.mkdir(parents=True)
    mark.write_text(str(os.getpid()) if left == "own number" else "")
    os.utime(mark, (0, 0))  # long ago
    assert client.get("/v1/map").status_code == 200


def test_a_map_that_cannot_be_kept_is_shown_all_the_same(client, settings):
    (settings.folder / "maps").write_text("a file where a folder should be")
    assert client.get("/v1/map").status_code == 200
    assert client.get("/v1/users/3/place").status_code == 200


def test_what_goes_wrong_unexpectedly_is_a_fault_and_no_promise(client, monkeypatch):
    def fail(*arguments):
        raise ValueError("unforeseen")

    monkeypatch.setattr(maps, "taste_map", fail)
    assert client.get("/v1/map").status_code == 500


@pytest.mark.parametrize("header", [b"[]", b'{"explained": 3}', b"5"])
def test_a_map_with_a_strange_header_is_made_again(client, settings, header):
    first = client.get("/v1/map").content
    kept_map(settings, client).write_bytes(len(header).to_bytes(8, "little") + header)
    with TestClient(create_app(settings)) as other:
        assert other.get("/v1/map").content == first


@pytest.mark.parametrize("damage", ["not numbers", "rows of another model", "a place too few"])
def test_a_map_that_does_not_fit_is_made_again(client, settings, damage):
    first, path = client.get("/v1/map").content, kept_map(settings, client)
    arrays = {name: array.copy() for name, array in load_file(path).items()}
    if damage == "not numbers":
        arrays["places"][3] = np.nan
    elif damage == "rows of another model":
        arrays["item_rows"][3] = 3000
    else:
        arrays["places"] = arrays["places"][:-1].copy()
    save_file(arrays, path)
    with TestClient(create_app(settings)) as other:
        assert other.get("/v1/map").content == first


def test_items_can_be_coloured_by_what_is_true_of_them():
    ratings = gaussian(40, 30, density=0.5, rng=generator(1))[0]
    about = pl.DataFrame({"old": [item < 10 for item in range(30)]})
    model = ALS(n_factors=2, regularisation=0.1, seed=1, threads=1).fit(ratings.with_items(None, about))
    assert map_content(model, taste_map(model))["attributes"]["old"] == {
        "values": ["false", "true"],
        "of": [[1]] * 10 + [[0]] * 20,
    }


def test_who_refuses_gzip_gets_none(client):
    answer = client.get("/", headers={"Accept-Encoding": "gzip;q=0, identity"})
    assert "Content-Encoding" not in answer.headers


def test_heads_of_the_page(client):
    assert client.head("/").status_code == 200
