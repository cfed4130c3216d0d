"""Twin of the descent kernel, from the formulas: the loss of a factorization, its gradient, steps rating by rating."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Point:
    """Factors and biases of both sides, in double."""

    users: np.ndarray
    items: np.ndarray
    user_bias: np.ndarray
    item_bias: np.ndarray

    def copy(self):
        return Point(*(array.copy() for array in self.parts()))

    def parts(self):
        return (self.users, self.items, self.user_bias, self.item_bias)


@dataclass
class Problem:
    """Ratings (i, j, r), a weight a row, four strengths (users, items, user bias, item bias)."""

    user_rows: np.ndarray
    item_rows: np.ndarray
    values: np.ndarray
    user_weights: np.ndarray
    item_weights: np.ndarray
    strengths: tuple[float, float, float, float]
    offset: float = 0.0
    is_squashed: bool = False

    def predicted(self, score):
        return 4 / (1 + np.exp(-score)) if self.is_squashed else score

    def slope(self, score):
        chance = 1 / (1 + np.exp(-score))
        return 4 * chance * (1 - chance) if self.is_squashed else np.ones_like(score)

    def scores(self, point):
        i, j = self.user_rows, self.item_rows
        return self.offset + point.user_bias[i] + point.item_bias[j] + np.sum(point.users[i] * point.items[j], axis=1)


def loss(problem, point):
    """E, as the module docstring of `descent` has it."""
    errors = problem.values - problem.predicted(problem.scores(point))
    lu, lv, lcu, lcv = problem.strengths
    penalty = lu * np.sum(problem.user_weights * np.sum(point.users**2, axis=1))
    penalty += lv * np.sum(problem.item_weights * np.sum(point.items**2, axis=1))
    penalty += lcu * np.sum(problem.user_weights * point.user_bias**2)
    penalty += lcv * np.sum(problem.item_weights * point.item_bias**2)
    return 0.5 * np.sum(errors**2) + 0.5 * penalty


def gradient(problem, point):
    """Of E by all parts."""
    scores, (i, j) = problem.scores(point), (problem.user_rows, problem.item_rows)
    gains = (problem.values - problem.predicted(scores)) * problem.slope(scores)
    lu, lv, lcu, lcv = problem.strengths
    rated_users = np.bincount(i, minlength=len(point.users)) > 0
    rated_items = np.bincount(j, minlength=len(point.items)) > 0
    # Rows without ratings are never visited: their penalty pulls nobody.
    user_weights, item_weights = problem.user_weights * rated_users, problem.item_weights * rated_items
    slopes = Point(
        lu * user_weights[:, None] * point.users,
        lv * item_weights[:, None] * point.items,
        lcu * user_weights * point.user_bias,
        lcv * item_weights * point.item_bias,
    )
    np.subtract.at(slopes.users, i, gains[:, None] * point.items[j])
    np.subtract.at(slopes.items, j, gains[:, None] * point.users[i])
    np.subtract.at(slopes.user_bias, i, gains)
    np.subtract.at(slopes.item_bias, j, gains)
    return slopes


def descended(problem, point, rate, bias_rate, order):
    """A step at each rating in turn; the point after them, and the sum of squared errors met on the way."""
    point, squares = point.copy(), 0.0
    user_counts, item_counts = np.bincount(problem.user_rows), np.bincount(problem.item_rows)
    lu, lv, lcu, lcv = problem.strengths
    for k in order:
        i, j = problem.user_rows[k], problem.item_rows[k]
        user, item, c, d = point.users[i].copy(), point.items[j].copy(), point.user_bias[i], point.item_bias[j]
        score = np.array(problem.offset + c + d + user @ item)
        error = problem.values[k] - problem.predicted(score)
        gain = error * problem.slope(score)
        user_pull, item_pull = problem.user_weights[i] / user_counts[i], problem.item_weights[j] / item_counts[j]
        point.users[i] = user + rate * (gain * item - lu * user_pull * user)
        point.items[j] = item + rate * (gain * user - lv * item_pull * item)
        point.user_bias[i] = c + bias_rate * (gain - lcu * user_pull * c)
        point.item_bias[j] = d + bias_rate * (gain - lcv * item_pull * d)
        squares += float(error) ** 2
    return point, squares


def block_order(offsets, stages, batch=0, n_batches=1):
    """The order in which one thread visits ratings: stage by stage, block by block, the batch's share of each."""
    n_parts, order = len(stages), []
    for stage in stages:
        for part in range(n_parts):
            block = part * n_parts + (part + stage) % n_parts
            first, n = int(offsets[block]), int(offsets[block + 1] - offsets[block])
            order += range(first + n * batch // n_batches, first + n * (batch + 1) // n_batches)
    return order
