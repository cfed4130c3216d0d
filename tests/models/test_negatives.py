"""What was not chosen: cells drawn for all of them have the right weights, on both sides, and so have the panels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from tastespace import Ratings
from tastespace.models.factorization.implicit.cells import Confidence
from tastespace.models.factorization.implicit.logistic_mf import LogisticDescent, LogisticState
from tastespace.models.factorization.implicit.negatives import LAWS, Chances, Panel, Unchosen, inclusion, popularity
from tastespace.randomness import generator

K = 3


@pytest.fixture
def chosen():
    """Who chose what, some of it more popular than the rest."""
    likely = np.linspace(0.05, 0.6, 9)
    is_chosen = generator(5).random((7, 9)) < likely
    is_chosen[:, 0] |= ~is_chosen.any(axis=1)
    is_chosen[0, ~is_chosen.any(axis=0)] = True
    return is_chosen


def unchosen(chosen, law):
    return Unchosen.of(law, K, chosen.sum(axis=1), chosen.sum(axis=0))


def wanted_weights(chosen, law):
    """w of every cell, by its definition."""
    n_users, n_items = chosen.shape
    n = chosen.sum()
    of_users, of_items = chosen.sum(axis=1)[:, None], chosen.sum(axis=0)[None, :]
    if law == "weighted":
        weights = np.full(chosen.shape, K * n / (n_users * n_items - n))
    elif law == "uniform":
        weights = np.broadcast_to(K * of_users / n_items, chosen.shape)
    else:
        weights = K * of_users * of_items**0.75 / (of_items**0.75).sum()
    return np.where(chosen, 0, weights)


def expected_weights(drawing, chosen, *, forgets=False):
    """What cells of a side count on average: times drawn, chance, weight; one that was chosen does not count."""
    times = np.diff(drawing.offsets)[:, None] * drawing.row_weights[:, None].astype(np.float64)
    columns = drawing.chances.values * (1 if forgets else drawing.column_weights)
    return np.where(chosen, 0, times * columns)


@pytest.mark.parametrize("law", LAWS)
def test_both_sides_draw_for_the_same_weights(chosen, law):
    of_users, of_items = unchosen(chosen, law).drawings
    wanted = wanted_weights(chosen, law)
    assert_allclose(expected_weights(of_users, chosen), wanted, rtol=1e-6)
    assert_allclose(expected_weights(of_items, chosen.T), wanted.T, rtol=1e-6)


def test_the_weighted_law_has_the_total_that_was_asked_for(chosen):
    assert wanted_weights(chosen, "weighted").sum() == pytest.approx(K * chosen.sum())
    drawing, _ = unchosen(chosen, "weighted").drawings
    assert expected_weights(drawing, chosen).sum() == pytest.approx(K * chosen.sum())
    assert drawing.column_weights.max() <= 2
    assert drawing.column_weights.min() < 1  # popular columns come up more often, and count less


def test_weights_that_are_forgotten_would_be_noticed(chosen):
    drawing, _ = unchosen(chosen, "weighted").drawings
    broken = expected_weights(drawing, chosen, forgets=True)
    assert np.abs(broken / np.where(chosen, 1, wanted_weights(chosen, "weighted")) - 1)[~chosen].max() > 0.3


def factors(shape, rng):
    return [rng.standard_normal((n, 2)) for n in shape]


@pytest.mark.parametrize("law", LAWS)
def test_the_gradient_of_what_is_drawn_is_that_of_all(chosen, law):
    """Its expectation, enumerated over every column that can be drawn, and a twin without importance weights."""
    users, items = factors(chosen.shape, generator(1))
    slopes = expit(users @ items.T)  # of log(1 + exp(s))
    for side, rows, other, own in ((0, users, items, chosen), (1, items, users, chosen.T)):
        drawing = unchosen(chosen, law).drawings[side]
        of_all = (wanted_weights(chosen, law).T if side else wanted_weights(chosen, law)) * (
            slopes.T if side else slopes
        )
        for row in range(len(rows)):
            one = np.zeros(2)
            for column, chance in enumerate(drawing.chances.values):
                if not own[row, column]:
                    weight = drawing.row_weights[row] * drawing.column_weights[column]
                    one += chance * weight * expit(rows[row] @ other[column]) * other[column]
            expected = (drawing.offsets[row + 1] - drawing.offsets[row]) * one
            assert_allclose(expected, of_all[row] @ other, rtol=1e-5)
        forgetful = (expected_weights(drawing, own, forgets=True) * (slopes.T if side else slopes)) @ other
        assert (law == "weighted") == (np.abs(forgetful - of_all @ other).max() > 0.1)


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS)
def test_what_the_kernel_draws_is_unbiased(chosen, law):
    """Loss and gradient of its steps, over many keys, against the sums over all cells."""
    rng, n_keys = generator(2), 3000
    users, items = np.nonzero(chosen)
    ratings = Ratings.from_arrays(users, items, np.ones(len(users)))
    order = ratings.users.ids.to_numpy(), ratings.items.ids.to_numpy()
    mine = chosen[order[0]][:, order[1]]
    transition = LogisticDescent(
        ratings,
        Confidence(0.0),
        unchosen(mine, law),
        ridge=0.5,
        rate=1e-3,
        n_factors=2,
        has_biases=True,
        threads=1,
    )
    state = transition.init(rng)
    state.users.at.factors[:], state.items.at.factors[:] = (
        side.astype(np.float32) for side in factors(mine.shape, rng)
    )
    losses, gradients = [], []
    for key in range(n_keys):
        after, loss = transition.moved(transition.by_user, state.users, state.items, key)
        losses.append(loss)
        # From sums of squares that were 0, and the way that each coordinate went.
        gradients.append(np.sqrt(after.squares.factors) * np.sign(state.users.at.factors - after.at.factors))
    weights = wanted_weights(mine, law)
    expected_loss, expected = brute_force(state, mine, weights, transition.offset, 0.5)
    for found, exact in ((np.array(losses), expected_loss), (np.array(gradients, np.float64), expected)):
        error = found.std(axis=0) / np.sqrt(n_keys)
        assert np.abs((found.mean(axis=0) - exact) / error).max() < 5.5  # 14 gradients: 1e-6 in all
    _, wrong = brute_force(state, mine, np.where(mine, 0, weights.max()), transition.offset, 0.5)
    assert np.abs((np.mean(gradients, axis=0) - wrong) / error).max() > 5.5 or law == "weighted"


def brute_force(state: LogisticState, chosen, weights, offset, ridge):
    """The loss over all cells, and its gradient by the users' factors."""
    users, items = (side.at.factors.astype(np.float64) for side in (state.users, state.items))
    scores = offset + users @ items.T
    loss = np.logaddexp(0, -scores)[chosen].sum() + (weights * np.logaddexp(0, scores)).sum()
    loss += 0.5 * ridge * ((users**2).sum() + (items**2).sum())
    slopes = np.where(chosen, -expit(-scores), weights * expit(scores))
    return loss, slopes @ items + ridge * users


def test_popularity_grows_more_slowly_than_the_counts():
    chances = popularity(np.array([1, 16, 81]))
    assert_allclose(chances / chances[0], [1, 8, 27])
    assert chances.sum() == pytest.approx(1)
    assert_allclose(popularity(np.zeros(4)), 0.25)


def test_where_everything_was_chosen_nothing_is_left_to_draw():
    everything = np.ones((4, 5), bool)
    for law in LAWS:
        for drawing, own in zip(unchosen(everything, law).drawings, (everything, everything.T), strict=True):
            assert np.isfinite(drawing.row_weights).all()
            assert expected_weights(drawing, own).sum() == 0


def test_drawing_leaves_out_what_was_chosen_and_depends_on_the_place():
    from tastespace.data.csr import CSR

    chosen = CSR(np.array([0, 2, 2, 4]), np.array([0, 3, 0, 3], np.int32), np.ones(4, np.float32))
    chances, counts = Chances.of(np.array([5, 1, 1, 5])), np.array([50, 50, 50])
    drawn = chances.draw(chosen, counts, 7, np.array([4, 5, 4], np.uint64))
    rows = drawn.rows()
    assert set(drawn.columns[rows == 0]) == {1, 2}
    assert np.count_nonzero(rows == 1) == 50
    assert_array_equal(drawn.columns[rows == 0], drawn.columns[rows == 2])
    other = chances.draw(chosen, counts, 8, np.array([4, 5, 4], np.uint64))
    assert len(other.columns) != len(drawn.columns) or (other.columns != drawn.columns).any()


# Panels


def test_a_small_catalogue_is_its_own_panel():
    law = np.array([0.5, 0.5, 0.0, 0.0])
    panel = Panel.of(law, np.array([0.2, 0.5, 0.3, 0.0]), generator(0), size=4)
    assert_array_equal(panel.items, [0, 1, 2])
    assert_allclose(panel.weights, [0.5, 0.5, 0.0])


def test_inclusion_probabilities():
    wanted = generator(1).dirichlet(np.full(300, 0.3))
    probabilities = inclusion(wanted, 40)
    assert probabilities.sum() == pytest.approx(40)
    assert probabilities.max() == 1
    below = probabilities < 1
    assert_allclose((probabilities / wanted)[below], (probabilities / wanted)[below][0])
    assert wanted[~below].min() >= wanted[below].max()


@pytest.mark.statistical
def test_a_panel_stands_for_all():
    """Sums over panels are on average the sum over all; without their weights they are not."""
    rng = generator(3)
    popular = popularity(rng.geometric(0.05, 400))
    law, values = np.full(400, 1 / 400), rng.standard_normal(400) + 2 * popular / popular.max()
    panels = [Panel.of(law, popular, generator(seed), size=50) for seed in range(2000)]
    assert all(len(panel.items) == 50 for panel in panels)
    sums = np.array([panel.weights.astype(np.float64) @ values[panel.items] for panel in panels])
    error = sums.std() / np.sqrt(len(sums))
    assert abs(sums.mean() - law @ values) < 5 * error
    plain = np.array([values[panel.items].mean() for panel in panels])
    assert abs(plain.mean() - law @ values) > 5 * plain.std() / np.sqrt(len(plain))
