"""Boltzmann machines and belief networks against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace.errors import DataError, InvalidParameterError, NonFiniteStateError
from tastespace.networks.dbn import DBN, train_dbn, up_down
from tastespace.networks.partition import exact_partition, log_likelihood, sampled_partition
from tastespace.networks.rbm import RBM, gradient_of, train_rbm
from tastespace.randomness import generator

STATES = (np.arange(256)[:, None] >> np.arange(8) & 1).astype(np.float32)  # of 8 visible units


def machine(rng, visible="bernoulli", n_hidden=4, scale=0.7):
    weights, *biases = (rng.normal(0, scale, size).astype(np.float32) for size in ((8, n_hidden), 8, n_hidden))
    moments = (np.full(8, 2, np.float32), np.full(8, 3, np.float32)) if visible == "gaussian" else ()
    return RBM(weights, *biases, visible, *moments)


def probabilities(model):
    """The probability of each state of the visible units."""
    return np.exp(-model.free_energy(STATES) - exact_partition(model).log)


def expected(model):
    """Visible and hidden units of the model, as a weighted sample that a plain mean can be taken of."""
    weights = (probabilities(model) * len(STATES))[:, None].astype(np.float32)
    root = np.sqrt(weights)
    return (
        weights * STATES,
        weights * model.hidden_means(STATES),
        (root * STATES).T @ (root * model.hidden_means(STATES)),
    )


class TestEnumeration:
    def test_probabilities_sum_to_one(self):
        assert probabilities(machine(generator(1))).sum() == pytest.approx(1, abs=1e-5)

    def test_either_side_gives_the_same(self):
        few = machine(generator(1), n_hidden=4)
        turned = RBM(few.weights.T.copy(), few.hidden_bias, few.visible_bias)
        assert exact_partition(few).log == pytest.approx(exact_partition(turned).log, rel=1e-6)

    def test_gaussian_density_integrates(self):
        """Importance sampling over z from a wide normal distribution."""
        rng = generator(2)
        model = machine(rng, "gaussian", n_hidden=2, scale=0.2)
        points = rng.normal(0, 1.2, (400_000, 8))
        log_q = -(points**2).sum(axis=1) / 2 / 1.44 - 8 * np.log(1.2 * np.sqrt(2 * np.pi))
        energy = model.free_energy((points * model.sd + model.mean).astype(np.float32))
        assert np.log(np.mean(np.exp(-energy - log_q))) == pytest.approx(exact_partition(model).log, abs=0.03)

    def test_too_many_units_are_refused(self):
        large = RBM(np.zeros((30, 30), np.float32), np.zeros(30, np.float32), np.zeros(30, np.float32))
        with pytest.raises(InvalidParameterError, match="30 units; expected at most"):
            exact_partition(large)

    @pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])
    def test_annealed_importance_sampling(self, visible):
        rng = generator(3)
        model = machine(rng, visible)
        exact, sampled = exact_partition(model), sampled_partition(model, rng, n_chains=200, n_steps=300)
        assert 0 < sampled.standard_error < 0.1
        assert abs(sampled.log - exact.log) < 5 * sampled.standard_error

    def test_annealing_that_forgets_to_move_is_found_out(self, monkeypatch):
        """Without the Gibbs steps the weights agree far less."""
        model = machine(generator(3), scale=2.5)
        good = sampled_partition(model, generator(4), n_chains=200, n_steps=300)
        bad = sampled_partition(model, generator(4), n_chains=200, n_steps=1)
        assert bad.standard_error > 3 * good.standard_error


class TestGradient:
    def likelihood(self, model, data):
        return log_likelihood(model, data, exact_partition(model))

    @pytest.mark.parametrize("part", ["weights", "visible_bias", "hidden_bias"])
    def test_against_differences_of_the_exact_likelihood(self, part):
        from dataclasses import replace

        rng = generator(5)
        model = machine(rng)
        data = (rng.random((50, 8)) < 0.4).astype(np.float32)
        visible, hidden, products = expected(model)
        weights, *biases = gradient_of((data, model.hidden_means(data)), (visible, hidden))
        positive = data.T @ model.hidden_means(data) / len(data)
        found = dict(
            zip(("weights", "visible_bias", "hidden_bias"), (positive - products / len(STATES), *biases), strict=True)
        )
        direction = rng.normal(size=found[part].shape).astype(np.float32)
        step = 0.02
        ahead, behind = (
            self.likelihood(replace(model, **{part: getattr(model, part) + sign * step * direction}), data)
            for sign in (1, -1)
        )
        assert (ahead - behind) / (2 * step) == pytest.approx(
            float((found[part] * direction).sum()), rel=0.01, abs=1e-3
        )

    def test_centered_gradient_is_zero_where_the_plain_one_is(self):
        rng = generator(6)
        data = (rng.random((50, 8)).astype(np.float32), rng.random((50, 4)).astype(np.float32))
        means = rng.random(8).astype(np.float32), rng.random(4).astype(np.float32)
        for part in gradient_of(data, data, means):
            np.testing.assert_array_equal(part, 0)

    def test_centered_gradient_does_not_depend_on_what_is_called_on(self):
        """With the mean of each side as its center, on and off may be swapped: weights change their sign, no more."""
        rng = generator(7)
        data, model = ((rng.random((50, 8), np.float32), rng.random((50, 4), np.float32)) for _ in range(2))
        means = data[0].mean(axis=0), data[1].mean(axis=0)
        plain = gradient_of(data, model, means)[0]
        flipped = gradient_of((1 - data[0], data[1]), (1 - model[0], model[1]), (1 - means[0], means[1]))[0]
        np.testing.assert_allclose(flipped, -plain, atol=1e-6)
        assert (
            np.abs(gradient_of(data, model)[0] + gradient_of((1 - data[0], data[1]), (1 - model[0], model[1]))[0]).max()
            > 1e-3
        )


@pytest.mark.statistical
class TestChains:
    def chain(self, model, rng, wrong=False):
        """The visible means of long chains, and how often each pair of neighbors is on together."""
        units = np.zeros((4000, 8), np.float32)
        for _ in range(60):
            hidden = model.hidden_means(units) if wrong else model.drawn_hidden(units, rng)
            units = model.drawn_visible(hidden, rng)
        return np.concatenate([units.mean(axis=0), (units[:, 1:] * units[:, :-1]).mean(axis=0)])

    def exact(self, model):
        weights = probabilities(model)[:, None]
        return np.concatenate([(weights * STATES).sum(axis=0), (weights * STATES[:, 1:] * STATES[:, :-1]).sum(axis=0)])

    def test_statistics_of_gibbs_chains_are_exact(self):
        model = machine(generator(8), scale=1.5)
        np.testing.assert_allclose(self.chain(model, generator(9)), self.exact(model), atol=5 * 0.5 / np.sqrt(4000))

    def test_means_in_place_of_draws_are_found_out(self):
        model = machine(generator(8), scale=1.5)
        assert np.abs(self.chain(model, generator(9), wrong=True) - self.exact(model)).max() > 5 * 0.5 / np.sqrt(4000)

    @pytest.mark.parametrize("chains", ["cd", "pcd"])
    def test_training_comes_close_to_the_entropy_of_the_data(self, chains):
        """Six independent bits, each seen twice: pairs have to be learned."""
        rng = generator(10)
        data = np.repeat((rng.random((600, 4)) < 0.3).astype(np.float32), 2, axis=1)
        ways = {"epochs": 300, "learning_rate": 0.1, "held_out_share": 0.0}
        model = train_rbm(data, 6, rng=rng, chains=chains, momentum=0.9 if chains == "cd" else 0.5, **ways)
        entropy = -4 * (0.3 * np.log(0.3) + 0.7 * np.log(0.7))
        assert log_likelihood(model, data, exact_partition(model)) > -1.25 * entropy  # independent units: -2 times

    def test_persistent_chains_have_the_statistics_of_the_model(self):
        """After training, what the persistent chains show on average is what the machine says."""
        from tastespace.networks import rbm

        rng = generator(11)
        data = (rng.random((200, 8)) < 0.4).astype(np.float32)
        ascent = rbm._Ascent(machine(rng, scale=0.3), "pcd", 1, True, 1e-6, 0.0, 0.0)
        seen = np.zeros(8)
        for step in range(3000):
            ascent.step(data, rng)
            if step >= 100:
                seen += ascent.kept.mean(axis=0) / 2900
        weights = probabilities(ascent.machine)[:, None]
        np.testing.assert_allclose(seen, (weights * STATES).sum(axis=0), atol=0.01)


class TestTraining:
    @pytest.fixture
    def data(self):
        rng = generator(12)
        return (rng.normal(size=(300, 3)) @ rng.normal(size=(3, 10)) + 2).astype(np.float32)

    def test_same_generator_same_bytes(self, data):
        one, other = (train_rbm(data, 5, rng=generator(1), visible="gaussian", epochs=5) for _ in range(2))
        for name, array in one.arrays().items():
            np.testing.assert_array_equal(array, other.arrays()[name])

    def test_arrays_give_the_same_machine(self, data):
        for network in (
            train_rbm(data, 5, rng=generator(1), visible="gaussian", epochs=3),
            train_dbn(data, [6, 4], rng=generator(1), visible="gaussian", epochs=3, tuning_epochs=2),
        ):
            again = type(network).from_arrays(network.arrays())
            np.testing.assert_array_equal(network.encode(data), again.encode(data))
            np.testing.assert_array_equal(network.decode(network.encode(data)), again.decode(again.encode(data)))

    def test_inputs_out_of_range_are_refused(self, data):
        with pytest.raises(DataError, match="expected 0 to 1"):
            train_rbm(data, 5, rng=generator(1))
        with pytest.raises(DataError, match="not finite"):
            train_rbm(data * np.nan, 5, rng=generator(1))
        with pytest.raises(InvalidParameterError, match="n_hidden"):
            train_rbm(data, 0, rng=generator(1))

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    def test_a_diverging_machine_stops_with_words(self, data):
        with pytest.raises(NonFiniteStateError, match="lower learning_rate"):
            train_rbm(data, 5, rng=generator(1), visible="gaussian", learning_rate=1e6, epochs=30)

    def test_a_constant_column_does_no_harm(self, data):
        data[:, 2] = 4
        model = train_rbm(data, 5, rng=generator(1), visible="gaussian", epochs=3)
        assert np.isfinite(model.encode(data)).all()


class TestBeliefNetwork:
    def test_fine_tuning_gives_rows_back_better(self):
        rng = generator(13)
        data = np.repeat((rng.random((400, 4)) < 0.3).astype(np.float32), 3, axis=1)
        ways = {"epochs": 150, "learning_rate": 0.2, "held_out_share": 0.2}
        errors = {}
        for tuning_epochs in (0, 40):
            network = train_dbn(data, [8, 6], rng=generator(1), tuning_epochs=tuning_epochs, tuning_rate=0.05, **ways)
            errors[tuning_epochs] = np.mean((network.decode(network.encode(data)) - data) ** 2)
        assert errors[40] < errors[0] < data.var()

    def test_generative_weights_learn_by_the_delta_rule(self):
        """One step of fine-tuning on many rows: the generative part moves along its own likelihood."""
        rng = generator(14)
        below, top = machine(rng), RBM(*(np.zeros(size, np.float32) for size in ((4, 3), 4, 3)))
        data = (rng.random((20_000, 8)) < 0.5).astype(np.float32)
        moved = up_down(DBN((below,), (below,), top), data, generator(1), rate=1e-3, steps=1)
        hidden = below.hidden_means(data)
        drawn = (generator(1).random(hidden.shape, np.float32) < hidden).astype(np.float32)
        missed = data - below.visible_means(drawn)
        found = (moved.down[0].weights - below.weights) / 1e-3
        np.testing.assert_allclose(found, missed.T @ drawn / len(data), atol=1e-3)
        assert not np.array_equal(moved.up[0].weights, moved.down[0].weights)
