"""Autoencoders of ratings: gradients, ridge regression of new users, intervals, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tastespace import AutoRec, SparseFC, load, random_split, save
from tastespace.data.csr import CSR
from tastespace.distributions.conformal import ConformalErrors
from tastespace.errors import DataError, InvalidParameterError, MissingExtraError, NonFiniteStateError
from tastespace.models.deep.codes import EncodedItems, Units
from tastespace.networks import masked
from tastespace.networks.backend import repeatable
from tastespace.networks.masked import Kernel, Network, train_masked
from tastespace.randomness import generator
from tastespace.testing.toys import tastes


def some_rows(rng, n_rows=7, n_columns=5):
    there = rng.random((n_rows, n_columns)) < 0.6
    rows, columns = (places.astype(np.int32) for places in np.nonzero(there))
    return CSR.group(rows, columns, rng.normal(size=len(rows)).astype(np.float32), n_rows)


@pytest.fixture
def torch():
    pytest.importorskip("torch")
    with repeatable("a test") as torch, torch.sparse.check_sparse_tensor_invariants(True):
        yield torch


def network_of(torch, rows, sizes, kernel):
    network = Network(torch, rows, 5, sizes, kernel, 0.3, 0.7, generator(2), dtype=np.float64)
    with torch.no_grad():
        for part in network.parameters:
            part += torch.from_numpy(generator(3).normal(0, 0.3, tuple(part.shape)))
    return network


@pytest.mark.deep
@pytest.mark.parametrize(("sizes", "kernel"), [([3], None), ([4, 3], None), ([4, 3], Kernel(2, 0.4))])
def test_gradients_are_those_of_finite_differences(sizes, kernel, torch, rng):
    network = network_of(torch, some_rows(rng), sizes, kernel)
    network.loss().backward()
    for part in network.parameters:
        direction = torch.from_numpy(rng.normal(size=tuple(part.shape)))
        with torch.no_grad():
            part += 1e-5 * direction
            above = network.loss().item()
            part -= 2e-5 * direction
            below = network.loss().item()
            part += 1e-5 * direction
        expected = (above - below) / 2e-5
        assert float((part.grad * direction).sum()) == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.deep
def test_the_loss_is_the_one_that_is_written_down(torch, rng):
    rows = some_rows(rng)
    network = network_of(torch, rows, [3], None)
    (weights,), (bias,) = network.weights, network.biases
    arrays = [part.detach().numpy() for part in (weights, bias, network.columns, network.column_bias, network.shared)]
    dense, known = np.zeros((7, 5)), np.zeros((7, 5), bool)
    dense[rows.rows(), rows.columns], known[rows.rows(), rows.columns] = rows.values, True
    codes = 1 / (1 + np.exp(-((dense + 3) * known @ arrays[0] + arrays[1])))
    predicted = codes @ (arrays[2] + arrays[4]).T + arrays[3]
    expected = np.sum(((dense - predicted) ** 2)[known]) / 2 + 0.7 / 2 * np.sum(arrays[3] ** 2)
    expected += 0.3 / 2 * sum(np.sum(part**2) for part in (arrays[0], arrays[2], arrays[4]))
    assert network.loss().item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.deep
def test_same_seed_same_bytes_and_another_seed_not(rng):
    pytest.importorskip("torch")
    rows = some_rows(rng, 30, 20)
    ways = {"strength": 0.1, "damping": 1.0, "iterations": 30}
    one, same, other = (train_masked(rows, 20, [6], rng=generator(seed), **ways).network for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.columns, same.columns)
    assert not np.array_equal(one.columns, other.columns)


@pytest.mark.deep
def test_a_loss_that_is_not_finite_stops_with_words(rng):
    pytest.importorskip("torch")
    rows = some_rows(rng)
    broken = replace(rows, values=np.full(len(rows.values), 1e30, np.float32))
    with pytest.raises(NonFiniteStateError, match="the loss of the autoencoder is .* expected a finite one"):
        train_masked(broken, 5, [3], rng=generator(1), strength=1.0, damping=1.0, iterations=20)


def test_ridge_regression_of_users_is_the_closed_form(rng):
    codes, shared = rng.random((12, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    ratings = CSR(np.array([0, 7]), np.arange(7, dtype=np.int32), rng.normal(size=7).astype(np.float32))
    users, bias = EncodedItems(codes, shared, codes[:0], shared[:0], 0.5, 2.0).fold_in(ratings, 1)
    design = np.hstack([codes[:7], np.ones((7, 1))]).astype(np.float64)
    target = ratings.values - codes[:7] @ shared
    expected = np.linalg.solve(design.T @ design + np.diag([0.5] * 4 + [2.0]), design.T @ target)
    np.testing.assert_allclose(np.append(users[0], bias[0]), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.deep
def test_placing_a_new_user_costs_little_beside_training_with_them():
    """Half of the users are left out of training and placed by ridge regression: their error is nearly the same."""
    pytest.importorskip("torch")
    ratings = tastes(300, 80, density=0.4, rng=generator(5))[0]
    split = random_split(replace(ratings, values=np.clip(ratings.values, 1, 5)), 0.2, seed=1)
    model = AutoRec(n_hidden=20, regularization=2.0, iterations=150, seed=1)
    whole = model.fit(split.train)
    is_new = np.arange(300) % 2 == 0
    of_new = is_new[split.train.users.ids.to_numpy()][split.train.user_rows]
    asked = split.test.take(is_new[split.test.users.ids.to_numpy()][split.test.user_rows])
    known = whole.predict(asked.user_ids(), asked.item_ids()).mean
    half = AutoRec(n_hidden=20, regularization=2.0, iterations=150, seed=1).fit(split.train.take(~of_new))
    history = split.train.take(of_new)
    placed = half.predict(asked.user_ids(), asked.item_ids(), history=history).mean
    refitted, folded = (float(np.sqrt(np.mean((asked.values - found) ** 2))) for found in (known, placed))
    spread = float(np.std(asked.values))
    assert refitted < 0.7 * spread
    assert folded < refitted + 0.1 * spread


@pytest.mark.deep
def test_intervals_cover_new_ratings_of_all_groups_of_users():
    """At 90 %: below 88 % by chance in fewer than one of a million tests of this size.

    They may cover more, because the network of the held-out errors knew fewer ratings. Errors on what was trained on
    are too small, and fail.
    """
    pytest.importorskip("torch")
    rng = generator(6)
    ratings = tastes(1500, 60, density=0.5, noise=0.5, rng=rng)[0]
    kept = rng.random(len(ratings)) < (0.3 + 0.7 * rng.random(1500))[ratings.user_rows]
    split = random_split(ratings.take(kept), 0.3, seed=2)
    model = AutoRec(n_hidden=10, regularization=2.0, iterations=60, seed=1).fit(split.train)
    prediction = model.predict(split.test.user_ids(), split.test.item_ids())
    assert prediction.belief_sd is None
    inside = prediction.rating.contains(split.test.values, [0.9])[:, 0]
    counts = split.train.by_user.counts[split.train.users.rows_of(split.test.user_ids())]
    middle = np.median(counts)
    for group in (counts <= middle, counts > middle):
        assert 0.88 < inside[group].mean() < 0.96
    own = split.train.values - model.predict(split.train.user_ids(), split.train.item_ids()).unclipped
    naive = ConformalErrors.of(own, np.ones(len(own)), split.train.range, None)
    too_narrow = naive.ratings(prediction.mean, np.ones(len(split.test))).contains(split.test.values, [0.9])
    assert too_narrow.mean() < 0.87


def test_conformal_quantiles_are_ranks_of_the_errors():
    errors = np.arange(1, 100, dtype=np.float64)  # the k-th of 99 is exceeded by a new one with probability 1 - k/100
    found = ConformalErrors.of(errors, np.full(99, 5), (-1000.0, 1000.0), None)
    np.testing.assert_array_equal(found.quantiles[0], np.append(np.arange(1, 100), 99))
    assert ConformalErrors.of(errors[:5], np.full(5, 5), (0.0, 1.0), None) is None


def test_conformal_groups_are_those_of_the_users():
    rng = generator(1)
    counts = np.repeat([5, 500], 2000)
    errors = rng.normal(0, np.where(counts == 5, 2.0, 0.5))
    found = ConformalErrors.of(errors, counts, (-100.0, 100.0), None)
    sd = found.ratings(np.zeros(2, np.float32), np.array([3, 900])).sd()
    np.testing.assert_allclose(sd, [2.0, 0.5], rtol=0.1)
    back = ConformalErrors.from_arrays(found.arrays())
    np.testing.assert_array_equal(back.quantiles, found.quantiles)


def test_without_torch_the_command_that_installs_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'tastespace\[deep\]'"):
        AutoRec().fit(tastes(10, 8, rng=generator(1))[0])


def test_implicit_feedback_is_refused_before_training():
    ratings = tastes(10, 8, rng=generator(1))[0]
    chosen = replace(ratings, values=np.ones_like(ratings.values)).with_kind("one-class")
    with pytest.raises(DataError, match="one-class .* AutoRec learns from their values alone"):
        AutoRec().fit(chosen)


@pytest.mark.deep
def test_weights_beyond_memory_are_refused_before_training(monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(masked.os, "sysconf", lambda name: 1024, raising=False)
    with pytest.raises(DataError, match="expected fewer hidden units"):
        AutoRec(n_hidden=5000).fit(tastes(10, 8, rng=generator(1))[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("side", "films"), ("regularization", 0.0), ("damping", 0.0), ("iterations", 0), ("n_hidden", 0)),
        *(("validation_share", 1.0), ("patience", 0), ("ensemble", 0)),
    ],
)
def test_senseless_parameters_are_refused(name, value):
    with pytest.raises(InvalidParameterError, match=name):
        AutoRec(**{name: value}).fit(tastes(10, 8, rng=generator(1))[0])


@pytest.mark.deep
def test_a_saved_model_answers_without_torch(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    ratings = tastes(20, 15, rng=generator(1))[0]
    model = AutoRec(side="users", n_hidden=4, regularization=1.0, iterations=20, ensemble=2, seed=1).fit(ratings)
    save(model, tmp_path / "model")
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.recommend([0, 1]).scores, model.recommend([0, 1]).scores)
    assert loaded.recommend(history={0: 5.0}).cold.tolist() == [False]


def test_units_of_equal_ratings():
    assert Units.of(3.0, 0.0).sd == 1.0


@pytest.mark.deep
def test_the_members_of_an_ensemble_are_averaged():
    pytest.importorskip("torch")
    ratings = tastes(60, 40, rng=generator(2))[0]
    model = SparseFC(n_hidden=8, regularization=1.0, iterations=30, ensemble=3, seed=1).fit(ratings)
    posterior = model.posterior_
    assert len(posterior.members) == 3
    users, items = ratings.user_ids(), ratings.item_ids()
    alone = []
    for member in posterior.members:
        one = SparseFC().restore(ratings, replace(posterior, members=(member,)), 1, ratings.range)
        alone.append(one.predict(users, items).unclipped)
    assert not np.allclose(alone[0], alone[1], atol=1e-3)
    np.testing.assert_allclose(model.predict(users, items).unclipped, np.mean(alone, axis=0), atol=1e-4)


@pytest.mark.deep
def test_kernels_make_weights_sparse(rng):
    """The stronger the penalty on the factors, the smaller they are: without one they stay near 1."""
    pytest.importorskip("torch")
    rows = some_rows(rng, 60, 30)
    sizes = []
    for strength in (0.0, 2.0):
        ways = {"rng": generator(1), "strength": 0.1, "damping": 1.0, "iterations": 60}
        network = train_masked(rows, 30, [6, 6], kernel=Kernel(3, strength), **ways).network
        sizes.append(np.mean([np.abs(layer.weights).mean() for layer in network.layers]))
    assert sizes[1] < 0.7 * sizes[0]


@pytest.mark.parametrize(
    ("name", "value"), [("n_layers", 0), ("kernel_dimensions", 0), ("sparsity", -1.0), ("n_hidden", 0)]
)
def test_senseless_parameters_of_kernels_are_refused(name, value):
    with pytest.raises(InvalidParameterError, match=name):
        SparseFC(**{name: value}).fit(tastes(10, 8, rng=generator(1))[0])
