"""Where chains of columns that shrink begin: with what ratings show, in whatever directions, before columns are judged.

Least squares make all tastes too narrow, and columns would be taken for nothing that are something. A few sweeps with
populations of any covariance find their widths; then the factors are turned so that their columns are uncorrelated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from numpy.random import Generator

from tastespace.inference.drivers import ascend, never
from tastespace.inference.transition import Stats, Transition
from tastespace.models.factorization.als import Factors
from tastespace.models.factorization.gibbs import GibbsState, GibbsSweep
from tastespace.models.factorization.priors import FactorPrior, Shrinks
from tastespace.models.factorization.shrinkage.turning import in_columns
from tastespace.models.factorization.story import FactorModel
from tastespace.progress import silent

# On MovieLens 100K directions that are something have their width after 10 sweeps, and the others have lost theirs
# after 20 (32 factors; docs/design/rank-by-shrinkage.md).
SETTLING_SWEEPS = 20


@dataclass(frozen=True, eq=False)
class SettledSweep:
    """The sweep of a model whose columns shrink, from such a start."""

    sweep: GibbsSweep
    user_prior: FactorPrior  # of the first sweeps
    item_prior: FactorPrior

    @classmethod
    def of(cls, sweep: GibbsSweep, model: FactorModel) -> SettledSweep:
        """The sweep of a model that shrinks columns."""
        assert model.settling is not None
        return cls(sweep, *model.settling)

    def init(self, rng: Generator) -> GibbsState:
        sweep = self.sweep
        first = replace(sweep, user_prior=self.user_prior, item_prior=self.item_prior)
        state, _ = ascend(
            first, first.init(rng), rng, steps=SETTLING_SWEEPS, stop=never, phase="starting", observer=silent
        )
        turned = in_columns(Factors(state.users, state.items), shrinks_users=isinstance(sweep.user_prior, Shrinks))
        return replace(
            state,
            users=turned.users,
            items=turned.items,
            user_population=sweep.user_prior.draw(turned.users.moments, rng),
            item_population=sweep.item_prior.draw(turned.items.moments, rng),
        )

    def step(self, state: GibbsState, rng: Generator) -> tuple[GibbsState, Stats]:
        return self.sweep.step(state, rng)


def settled(sweep: GibbsSweep, model: FactorModel) -> Transition[GibbsState]:
    """The sweep of a model, from the start that is right for it."""
    return sweep if model.settling is None else SettledSweep.of(sweep, model)
