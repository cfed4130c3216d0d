"""Adaptive priors: the strengths of the regularisation are learned with everything else (Kim, Part III essay).

With the noise precision alpha, the precision of a row's factors is alpha l w: l the strength, w the row's weight.
Beside factors and biases, l and alpha are put where the joint density is largest, one after the other, once an epoch:

    log p = n/2 log(alpha l) - alpha l S / 2 + ...       S = sum over rows of w |x|^2, n numbers

Left alone that density has no maximum: as x goes to 0 and l to infinity it grows without bound, and the alternation
goes there (a strong penalty makes the factors small, small factors ask for a stronger one, until nothing is left of
them). So l has a Gamma prior, with its mean at the strength that the fit starts from, and counting as much as the rows
themselves:

    l = 2 n / (alpha S + n / l0)

which is at most 2 l0. The start has small factors, which say nothing of the strength: the first `WAIT` epochs leave it.
"""

from __future__ import annotations

from dataclasses import dataclass

from tastespace.models.factorization.penalty import Strengths

WAIT = 10


@dataclass(frozen=True)
class AdaptivePrior:
    """The strengths with the highest density, given everything else."""

    start: Strengths  # l0
    n_ratings: int
    n_users: int
    n_items: int
    n_factors: int
    has_biases: bool

    @property
    def sizes(self) -> Strengths:
        """How many numbers each block has."""
        users, items = float(self.n_users), float(self.n_items)
        biases = 1.0 if self.has_biases else 0.0
        return Strengths(users * self.n_factors, items * self.n_factors, users * biases, items * biases)

    def strengths(
        self,
        now: Strengths,
        squared_errors: float,
        user_squares: tuple[float, float],
        item_squares: tuple[float, float],
    ) -> Strengths:
        """alpha given the strengths, then the strengths given alpha; squares are S of factors and of biases."""
        squares = Strengths(user_squares[0], item_squares[0], user_squares[1], item_squares[1])
        alpha = self.noise_precision(now, squared_errors, squares)
        sizes, start = self.sizes, self.start
        return Strengths(
            _strength(sizes.users, alpha * squares.users, start.users),
            _strength(sizes.items, alpha * squares.items, start.items),
            _strength(sizes.user_bias, alpha * squares.user_bias, start.user_bias),
            _strength(sizes.item_bias, alpha * squares.item_bias, start.item_bias),
        )

    def noise_precision(self, now: Strengths, squared_errors: float, squares: Strengths) -> float:
        """The alpha of the highest density: numbers over squares, errors and rows alike."""
        sizes = self.sizes
        n = self.n_ratings + sizes.users + sizes.items + sizes.user_bias + sizes.item_bias
        total = squared_errors + now.users * squares.users + now.items * squares.items
        total += now.user_bias * squares.user_bias + now.item_bias * squares.item_bias
        return n / max(total, 1e-12 * n)


def _strength(n: float, squares: float, start: float) -> float:
    """l = 2 n / (alpha S + n / l0); that of an empty block stays."""
    return 2 * n / (squares + n / start) if n else start
