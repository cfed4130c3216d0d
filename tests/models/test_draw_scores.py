"""Draws of scores: each vector of a user meets the items of its own draw."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tastespace import BPMF
from tastespace.randomness import generator
from tastespace.testing.conformance import believed
from tastespace.testing.toys import tastes


@pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")  # toys need longer chains
@pytest.mark.parametrize("n", [2, 6, 25])
def test_a_vector_meets_the_items_of_its_draw(n):
    """Fewer than there are, as many, and more: then several vectors meet the same items."""
    ratings = tastes(12, 9, rng=generator(0))[0]
    model = BPMF(n_factors=2, warmup=3, draws=3, chains=2, seed=0).fit(ratings)
    draws = model.posterior_.draws
    belief = believed(model, range(3))
    found = belief.draw_scores(1, n, generator(7))
    rng = generator(7)
    edges, n_draws = (np.arange(n) + rng.random()) / n, draws.items.shape[1]
    assert n_draws == 6
    chosen = np.arange(n) if n == n_draws else np.floor(edges * n_draws).astype(int)
    noise = rng.standard_normal((n, draws.items.shape[2]), np.float32)
    (some, *_), *_ = belief.blocks(np.array([1]))
    expected = []
    for s, eps in zip(chosen, noise, strict=True):
        person = some.means[1, s] + some.roots[1, s] @ eps
        items = draws.items[:, s]
        expected.append(items[:, :-1] @ person[:-1] + items[:, -1] + person[-1])
    assert_allclose(found, draws.offset + draws.scale * np.array(expected), rtol=1e-4, atol=1e-5)
