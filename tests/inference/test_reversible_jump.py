"""Jumps between spaces of known weights: a line and a plane, joined by a map that is not linear.

p(1, x) = weight N(x; 0, 1) and p(2, (y, z)) = (1 - weight) N(y; 0, 1) N(z; 0, 1). Up draws u ~ N(0, 2^2) and goes to
(x exp(u / 4), u), down has nothing to draw: the Jacobian is exp(u / 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm

from tastespace.errors import InvalidParameterError, NonFiniteStateError
from tastespace.inference.samplers.reversible_jump import jump, proposal_down, proposal_up
from tastespace.randomness import generator

WEIGHT, FALSE_ALARM = 0.3, 1e-6


def log_target(state):
    weight = WEIGHT if len(state) == 1 else 1 - WEIGHT
    return float(np.log(weight) + norm.logpdf(state).sum())


@dataclass
class Stretch:
    """Right, unless told to forget something."""

    forgets: str = ""
    name = "stretching"

    def can_go_up(self, state):
        return len(state) == 1

    def can_go_down(self, state):
        return len(state) == 2

    def draw_up(self, state, rng):
        return 2 * rng.standard_normal()

    def log_up(self, state, up):
        return 0.0 if self.forgets == "density" else float(norm.logpdf(up, scale=2))

    def up(self, state, up):
        return (state[0] * np.exp(up / 4), up), None, 0.0 if self.forgets == "jacobian" else up / 4

    def draw_down(self, state, rng):
        return None

    def log_down(self, state, down):
        return 0.0

    def down(self, state, down):
        y, u = state
        return (y * np.exp(-u / 4),), u, 0.0 if self.forgets == "jacobian" else -u / 4


def test_ratio_by_hand():
    state, u = (0.7,), 1.1
    proposal = proposal_up(Stretch(), log_target, state, u)
    there = (0.7 * np.exp(u / 4), u)
    above = (1 - WEIGHT) * norm.pdf(there[0]) * norm.pdf(there[1])
    ratio = above / (WEIGHT * norm.pdf(0.7) * norm.pdf(u, scale=2)) * np.exp(u / 4)
    assert proposal.state == there
    assert np.exp(proposal.log_ratio) == pytest.approx(ratio, rel=1e-12)
    assert proposal.acceptance == pytest.approx(min(1, ratio))


def test_up_and_down_undo_one_another():
    pair, rng = Stretch(), generator(1)
    for _ in range(20):
        state = (float(rng.standard_normal()),)
        up = proposal_up(pair, log_target, state, pair.draw_up(state, rng))
        down = proposal_down(pair, log_target, up.state, None)
        assert down.state == pytest.approx(state)
        assert down.log_ratio == pytest.approx(-up.log_ratio, abs=1e-12)


def z_score(pair, seed, steps=4000):
    """How far the share of the plane is from what it should be; jumps, and fresh points within each space."""
    rng, state, above = generator(seed), (0.0,), np.zeros(steps)
    for step in range(steps):
        state = tuple(rng.standard_normal(len(state)))  # each space is drawn from outright
        state = jump([pair], log_target, state, rng).state
        above[step] = len(state) == 2
    batches = above.reshape(50, -1).mean(axis=1)
    return abs(batches.mean() - (1 - WEIGHT)) / (batches.std(ddof=1) / np.sqrt(50))


@pytest.mark.statistical
def test_spaces_are_visited_by_their_weights():
    assert z_score(Stretch(), 2) < norm.isf(FALSE_ALARM / 2)


@pytest.mark.statistical
def test_without_the_density_of_what_is_drawn_they_are_not():
    assert z_score(Stretch("density"), 2) > norm.isf(FALSE_ALARM / 2)


def test_without_the_jacobian_balance_is_broken():
    pair, state = Stretch("jacobian"), (0.7,)
    right = proposal_up(Stretch(), log_target, state, 1.0).log_ratio
    assert abs(proposal_up(pair, log_target, state, 1.0).log_ratio - right) > 0.2


def test_a_move_that_cannot_be_made_stays():
    """Up from the largest space, half of the time."""
    rng = generator(3)
    tried = [jump([Stretch()], log_target, (0.1, 0.2), rng) for _ in range(60)]
    ups = [jumped for jumped in tried if jumped.went_up]
    assert 10 < len(ups) < 50
    assert all(jumped.state == (0.1, 0.2) and jumped.acceptance == 0 and not jumped.accepted for jumped in ups)


def test_nothing_to_jump_by():
    with pytest.raises(InvalidParameterError, match="at least one pair"):
        jump([], log_target, (0.0,), generator(0))


def test_what_is_not_a_number_stops():
    with pytest.raises(NonFiniteStateError, match="stretching"):
        proposal_up(Stretch(), lambda state: float("nan"), (0.0,), 1.0)
