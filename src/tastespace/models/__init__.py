"""What is believed: recommenders, one folder a family, and the table of their names.

Begin with `base/recommender.py`. `MODELS` names the module and class of each model, so that listing names imports none.
"""

from __future__ import annotations

from collections import UserDict
from typing import TYPE_CHECKING, Any

from tastespace.settings import kind_of

if TYPE_CHECKING:
    from tastespace.models.base.recommender import Recommender as Recommender
    from tastespace.models.baselines.baselines import DampedBias as DampedBias
    from tastespace.models.baselines.baselines import GlobalMean as GlobalMean
    from tastespace.models.baselines.baselines import ItemMean as ItemMean
    from tastespace.models.baselines.baselines import Popular as Popular
    from tastespace.models.factorization.als.als import ALS as ALS
    from tastespace.models.factorization.empirical_bayes.settings import EmpiricalBayes as EmpiricalBayes
    from tastespace.models.factorization.gibbs.bpmf import BPMF as BPMF
    from tastespace.models.factorization.implicit.implicit_als import ImplicitALS as ImplicitALS
    from tastespace.models.factorization.implicit.logistic_mf import LogisticMF as LogisticMF
    from tastespace.models.factorization.monotone.monotone import MonotoneMF as MonotoneMF
    from tastespace.models.factorization.sgd.pmf import PMF as PMF
    from tastespace.models.factorization.sphere.sphere import SphereALS as SphereALS
    from tastespace.models.factorization.sphere.sphere import SphereBPMF as SphereBPMF
    from tastespace.models.factorization.vb.vb import VB as VB
    from tastespace.models.linear.ease import EASE as EASE
    from tastespace.models.neighbors.knn import ItemKNN as ItemKNN
    from tastespace.models.neighbors.knn import UserKNN as UserKNN


class ModelTable(UserDict[str, Any]):
    """Names of models; the class of one is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Recommender]:
        model = self.data[name]
        return kind_of(f"{__name__}.{model}" if isinstance(model, str) else model)

    def name_of(self, model: type[Recommender]) -> str | None:
        """The name of a class, None for one that is not in the table."""
        place = f"{model.__module__.removeprefix('tastespace.models.')}:{model.__qualname__}"
        return next((name for name, known in self.data.items() if known in (place, model)), None)


MODELS = ModelTable(
    {
        "mean": "baselines.baselines:GlobalMean",
        "bias": "baselines.baselines:DampedBias",
        "item-mean": "baselines.baselines:ItemMean",
        "popular": "baselines.baselines:Popular",
        "item-knn": "neighbors.knn:ItemKNN",
        "user-knn": "neighbors.knn:UserKNN",
        "als": "factorization.als.als:ALS",
        "pmf": "factorization.sgd.pmf:PMF",
        "vb": "factorization.vb.vb:VB",
        "bpmf": "factorization.gibbs.bpmf:BPMF",
        "sphere": "factorization.sphere.sphere:SphereBPMF",
        "sphere-als": "factorization.sphere.sphere:SphereALS",
        "implicit-als": "factorization.implicit.implicit_als:ImplicitALS",
        "logistic": "factorization.implicit.logistic_mf:LogisticMF",
        "ease": "linear.ease:EASE",
        "monotone": "factorization.monotone.monotone:MonotoneMF",
    }
)
_PLACES = {place.rpartition(":")[2]: place for place in MODELS.data.values()} | {
    "Recommender": "base.recommender:Recommender",
    "EmpiricalBayes": "factorization.empirical_bayes.settings:EmpiricalBayes",
}
__all__ = sorted(["MODELS", *_PLACES])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return kind_of(f"{__name__}.{_PLACES[name]}")
