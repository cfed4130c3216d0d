"""Autoencoders: PCA as their affine case, gradients, seeds and refusals."""

from __future__ import annotations

import builtins
import sys

import numpy as np
import pytest

from tastespace.errors import DataError, InvalidParameterError, MissingExtraError, NonFiniteStateError
from tastespace.networks.autoencoder import Autoencoder, Layer, train_autoencoder
from tastespace.randomness import generator


@pytest.fixture
def data():
    rng = generator(1)
    return (rng.normal(size=(300, 4)) @ rng.normal(size=(4, 12)) + 0.1 * rng.normal(size=(300, 12)) + 3).astype(
        np.float32
    )


def test_without_torch_the_command_that_installs_it(data, monkeypatch):
    real = builtins.__import__

    def without(name, *others):
        if name == "torch":
            raise ImportError(name)
        return real(name, *others)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    with pytest.raises(MissingExtraError, match=r"pip install 'tastespace\[deep\]'"):
        train_autoencoder(data, [3], rng=generator(1))


def test_trained_networks_answer_without_torch():
    layers = (Layer(np.ones((3, 1), np.float32), np.zeros(1, np.float32), "relu"),) * 1
    back = Layer(np.ones((1, 3), np.float32), np.ones(3, np.float32), "identity")
    network = Autoencoder((*layers, back))
    codes = network.encode(np.array([[1, 2, 3], [-1, -1, -1]], np.float32))
    np.testing.assert_array_equal(codes, [[6], [0]])
    np.testing.assert_array_equal(network.decode(codes), [[7] * 3, [1] * 3])
    with pytest.raises(ValueError, match="do not fit"):
        Autoencoder.from_arrays({**network.arrays(), "weights_1": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize(
    ("ways", "match"),
    [
        ({"sizes": []}, "number of sizes"),
        ({"sizes": [0]}, "sizes"),
        ({"dropout": 1.0}, "dropout"),
        ({"activation": "wibble"}, "activation"),
        ({"learning_rate": 0}, "learning_rate"),
    ],
)
def test_senseless_settings_are_refused(data, ways, match):
    with pytest.raises(InvalidParameterError, match=match):
        train_autoencoder(data, **{"sizes": [3], **ways}, rng=generator(1))


def test_senseless_inputs_are_refused():
    with pytest.raises(InvalidParameterError, match="dimensions"):
        train_autoencoder(np.ones(3, np.float32), [2], rng=generator(1))
    with pytest.raises(DataError, match="at least one row"):
        train_autoencoder(np.ones((0, 3), np.float32), [2], rng=generator(1))


@pytest.mark.deep
class TestTraining:
    def test_an_affine_one_spans_the_subspace_of_pca(self, data):
        ways = {"activation": "identity", "held_out_share": 0.0, "epochs": 200, "learning_rate": 0.01}
        network = train_autoencoder(data, [3], rng=generator(2), **ways)
        _, _, axes = np.linalg.svd(data - data.mean(axis=0), full_matrices=False)
        own, _ = np.linalg.qr(network.layers[1].weights.T)
        assert np.linalg.svd(axes[:3] @ own)[1].min() > 0.999  # cosines of the angles between the subspaces
        assert np.linalg.svd(axes[1:4] @ own)[1].min() < 0.5  # and not any other axes

    def test_batch_normalization_is_folded(self, data):
        """What NumPy answers with folded weights is what torch answered, as the watched loss says."""
        seen = []
        ways = {"batch_norm": True, "dropout": 0.1, "activation": "relu", "epochs": 8, "held_out_share": 0.5}
        network = train_autoencoder(
            data, [8, 3], rng=generator(3), code_activation="identity", observer=seen.append, **ways
        )
        order = generator(3).permutation(len(data))
        watched = data[np.sort(order[:150])]
        best = min(event.stats["held-out loss"] for event in seen)
        assert np.mean((network.decode(network.encode(watched)) - watched) ** 2) == pytest.approx(best, rel=1e-4)
        assert network.n_features == 3
        assert network.encode(data).shape == (300, 3)

    def test_same_generator_same_bytes(self, data):
        one, other = (train_autoencoder(data, [6, 2], rng=generator(1), dropout=0.2, epochs=4) for _ in range(2))
        for name, array in one.arrays().items():
            np.testing.assert_array_equal(array, other.arrays()[name])
        again = Autoencoder.from_arrays(one.arrays())
        np.testing.assert_array_equal(again.encode(data), one.encode(data))

    def test_held_out_rows_stop_training(self, data):
        seen = []
        noise = generator(4).normal(size=(60, 30)).astype(np.float32)
        train_autoencoder(noise, [50], rng=generator(1), epochs=500, learning_rate=0.01, observer=seen.append)
        assert len(seen) < 500

    def test_cross_entropy(self):
        bits = np.repeat((generator(5).random((200, 3)) < 0.4).astype(np.float32), 2, axis=1)
        ways = {"loss": "cross-entropy", "output": "sigmoid", "epochs": 200, "learning_rate": 0.02}
        network = train_autoencoder(bits, [3], rng=generator(1), **ways)
        assert ((network.decode(network.encode(bits)) > 0.5) == bits).mean() > 0.9

    def test_a_diverging_network_stops_with_words(self, data):
        with pytest.raises(NonFiniteStateError, match="lower learning_rate"):
            train_autoencoder(data, [3], rng=generator(1), activation="relu", learning_rate=1e30, epochs=20)
