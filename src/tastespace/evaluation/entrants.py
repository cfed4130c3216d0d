"""Which models take part in a contest: all that suit the ratings."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from tastespace.data.kinds import CHOICES
from tastespace.data.ratings import Ratings
from tastespace.errors import TastespaceError
from tastespace.evaluation import memory
from tastespace.models import MODELS, Recommender
from tastespace.models.choices import OneClass
from tastespace.models.suitable import misfit, suitable_model

NUMBER_BYTES = 4  # of a factor, in single precision: rows of both sides, and one matrix of factors by factors


def suitable_models(ratings: Ratings, *, seed: int | None = None, threads: int | None = None) -> dict[str, Recommender]:
    """Every model that makes something of what these ratings say, by its name, with parameters that suit them."""
    entrants = {name: suited(model, ratings) for name, model in MODELS.items()}
    return {
        name: model.set_params(seed=seed, threads=threads)
        for name, model in entrants.items()
        if unsuitable(model, ratings) is None
    }


def suited(model: type[Recommender], ratings: Ratings) -> Recommender:
    """A model of this class with the parameters that the kind of the ratings asks for, all others as usual.

    A family has the same parameters: what `suitable_model` chooses for `BPMF` goes for those made from it, too.
    """
    chosen = suitable_model(ratings).recommender
    return model(**chosen.get_params()) if model is type(chosen) else model(**_likelihood(model, chosen))


def unsuitable(recommender: Recommender, ratings: Ratings) -> str | None:
    """Why a model cannot be expected to make anything of these ratings; None if it can."""
    kind, known_by = ratings.kind_and_reason
    if isinstance(recommender, OneClass) and kind not in CHOICES:
        name = type(recommender).__name__
        return f"the values are {kind} ({known_by}), and {name} takes all of them for things chosen; bpmf would suit"
    return misfit(recommender, ratings)


def faults_of(models: Mapping[str, Recommender]) -> dict[str, str]:
    """What models find wrong with their own parameters, by name; those that are fine are not there."""
    faults = {}
    for name, model in models.items():
        try:
            model.check()
        except TastespaceError as error:
            faults[name] = str(error)
        except Exception:
            continue  # A model may be anybody's: what goes wrong in it is told where it is fitted.
    return faults


def oversized(recommender: Recommender, ratings: Ratings) -> str | None:
    """Why the factors of a model cannot be held by this machine, whatever else it needs; None if they can."""
    n_factors, here = getattr(recommender, "n_factors", None), memory.machine_bytes()
    if not isinstance(n_factors, Integral) or here is None:
        return None
    needed = NUMBER_BYTES * int(n_factors) * (int(n_factors) + ratings.n_users + ratings.n_items)
    if needed <= here:
        return None
    return (
        f"n_factors is {n_factors}, with which {ratings.n_users:,} users and {ratings.n_items:,} items would take "
        f"{_gigabytes(needed)} at least, and this machine has {_gigabytes(here)}; expected fewer factors, such as 32"
    )


def _gigabytes(n: int) -> str:
    return f"{n / 1e9:,.0f} GB" if n < 1e15 else f"{n / 1e9:.0e} GB"


def _likelihood(model: type[Recommender], chosen: Recommender) -> dict[str, Any]:
    """The likelihood that suits, for another class that has likelihoods as the chosen one."""
    parameters = chosen.get_params()
    return (
        {"likelihood": parameters["likelihood"]}
        if issubclass(model, type(chosen)) and "likelihood" in parameters
        else {}
    )
