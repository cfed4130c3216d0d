"""How empirical Bayes goes about it, as an object or as a text: `empirical-bayes:steps=adam,draws=100`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from tastespace.errors import InvalidParameterError
from tastespace.inference.samplers.stochastic_approximation import Adam, RobbinsMonro, Steps
from tastespace.models.base.parameters import check_int, check_number, check_option
from tastespace.models.factorization.empirical_bayes.row_moves import TRANSITIONS, TransitionName

NAME = "empirical-bayes"
STEPS: dict[str, Steps] = {"robbins-monro": RobbinsMonro(), "adam": Adam()}
EXTREME = 1e6  # of a start: far beyond any precision that ratings could ask for


@dataclass(frozen=True)
class EmpiricalBayes:
    """Learn the regularisation from the ratings, and predict with the posterior mean at what was learned.

    `steps` are how the precisions follow their gradients ("robbins-monro" or "adam"), `transition` how factors are
    drawn meanwhile ("gibbs", "crank-nicolson" or "autoregressive": see
    `tastespace.models.factorization.empirical_bayes.row_moves`). Learning ends when the precisions have come to rest,
    after at most `most_steps`; then `draws` are kept. `tied` gives users and items one precision; only the product of
    two is identified. `start` is a strength for all blocks to begin with, as `ALS` has it; None is a weak one that
    suits any scale.
    """

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

    def __str__(self) -> str:
        """The text that `empirical_bayes_of` reads; defaults are left out."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        said = [f"{name}={value}" for name, value in own.items() if value != getattr(EmpiricalBayes, name)]
        return f"{NAME}:{','.join(said)}" if said else NAME


def empirical_bayes_of(regularisation: Any) -> EmpiricalBayes | None:
    """What a regularisation says of it: itself, a text that begins with its name, or None for any other."""
    if isinstance(regularisation, EmpiricalBayes):
        regularisation.check()
        return regularisation
    if not isinstance(regularisation, str):
        return None
    name, _, settings = regularisation.partition(":")
    if name != NAME:
        return None
    found = EmpiricalBayes(**dict(_setting(setting) for setting in settings.split(",") if setting))
    found.check()
    return found


def _setting(setting: str) -> tuple[str, Any]:
    """One `key=value`."""
    key, separator, text = setting.partition("=")
    known = [field.name for field in fields(EmpiricalBayes)]
    if key not in known or not separator:
        raise InvalidParameterError(
            f"regularisation is {NAME} with {setting!r}; expected key=value, with a key among {', '.join(known)}"
        )
    if key in ("steps", "transition"):
        return key, text
    if key == "tied":
        check_option("tied", text.lower(), ["true", "false"])
        return key, text.lower() == "true"
    if key == "start" and text.lower() == "none":
        return key, None
    try:
        return key, float(text) if key == "start" else int(text)
    except ValueError:
        expected = "a number" if key == "start" else "a whole number"
        raise InvalidParameterError(f"{key} is {text!r}; expected {expected}") from None
