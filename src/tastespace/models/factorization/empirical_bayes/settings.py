"""How empirical Bayes goes about it, as an object or as a text: `empirical-bayes:steps=adam,draws=100`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tastespace.inference.samplers.stochastic_approximation import Adam, RobbinsMonro, Steps
from tastespace.models.base.parameters import check_int, check_number, check_option
from tastespace.models.factorization.empirical_bayes.row_moves import TRANSITIONS, TransitionName
from tastespace.settings import Settings, settings_of

STEPS: dict[str, Steps] = {"robbins-monro": RobbinsMonro(), "adam": Adam()}
EXTREME = 1e6  # of a start: far beyond any precision that ratings could ask for


@dataclass(frozen=True)
class EmpiricalBayes(Settings):
    """Learn the regularisation from the ratings, and predict with the posterior mean at what was learned.

    `steps` are how the precisions follow their gradients ("robbins-monro" or "adam"), `transition` how factors are
    drawn meanwhile ("gibbs", "crank-nicolson" or "autoregressive": see
    `tastespace.models.factorization.empirical_bayes.row_moves`). Learning ends when the precisions have come to rest,
    after at most `most_steps`; then `draws` are kept. `tied` gives users and items one precision; only the product of
    two is identified. `start` is a strength for all blocks to begin with, as `ALS` has it; None is a weak one that
    suits any scale.
    """

    name: ClassVar[str] = "empirical-bayes"

    steps: Literal["robbins-monro", "adam"] = "robbins-monro"
    transition: TransitionName = "gibbs"
    draws: int = 40
    most_steps: int = 100
    tied: bool = True
    start: float | None = None

    def check(self) -> None:
        check_option("steps", self.steps, list(STEPS))
        check_option("transition", self.transition, list(TRANSITIONS))
        check_int("draws", self.draws, least=1)
        check_int("most_steps", self.most_steps, least=1)
        check_option("tied", self.tied, [True, False])
        if self.start is not None:
            check_number("start", self.start, above=1 / EXTREME, below=EXTREME)


def empirical_bayes_of(regularisation: Any) -> EmpiricalBayes | None:
    """Return what a regularisation says of it: itself, a text that begins with its name, or None for any other."""
    is_meant = isinstance(regularisation, EmpiricalBayes)
    if isinstance(regularisation, str):
        is_meant = regularisation.partition(":")[0] == EmpiricalBayes.name
    if not is_meant:
        return None
    found: EmpiricalBayes = settings_of(regularisation, {EmpiricalBayes.name: EmpiricalBayes}, "regularisation")
    return found
