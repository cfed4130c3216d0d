"""What is believed: recommenders, one folder for each family, and the table of their names.

Begin with `base/recommender.py`. `MODELS` names the module and class of each model, so that listing names imports none.
Families import `base/`, the files of this folder, `index` and what is below it, and not one another; only `composed/`
and `registry.py`, which says what suits given ratings, know several.
"""

from __future__ import annotations

from collections import UserDict
from typing import TYPE_CHECKING, Any

from tastespace.settings import kind_of

if TYPE_CHECKING:
    # For type checkers: the names that __getattr__ resolves.
    from tastespace import ALS as ALS
    from tastespace import BPMF as BPMF
    from tastespace import EASE as EASE
    from tastespace import PLSA as PLSA
    from tastespace import PMF as PMF
    from tastespace import RBM as RBM
    from tastespace import VB as VB
    from tastespace import AutoRec as AutoRec
    from tastespace import Blend as Blend
    from tastespace import CoClusters as CoClusters
    from tastespace import ContentProfile as ContentProfile
    from tastespace import DampedBias as DampedBias
    from tastespace import DeepKNN as DeepKNN
    from tastespace import EmpiricalBayes as EmpiricalBayes
    from tastespace import GlobalMean as GlobalMean
    from tastespace import ImplicitALS as ImplicitALS
    from tastespace import ItemKNN as ItemKNN
    from tastespace import ItemMean as ItemMean
    from tastespace import Joint as Joint
    from tastespace import LogisticMF as LogisticMF
    from tastespace import MonotoneMF as MonotoneMF
    from tastespace import Popular as Popular
    from tastespace import SparseFC as SparseFC
    from tastespace import SphereALS as SphereALS
    from tastespace import SphereBPMF as SphereBPMF
    from tastespace import UserKNN as UserKNN
    from tastespace import UserMixture as UserMixture
    from tastespace.models.base.recommender import Recommender as Recommender


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
        "profile": "baselines.profile:ContentProfile",
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
        "joint": "composed.joint:Joint",
        "blend": "composed.blend:Blend",
        "monotone": "factorization.monotone.monotone:MonotoneMF",
        "autorec": "deep.autorec:AutoRec",
        "sparse-fc": "deep.autorec:SparseFC",
        "rbm": "deep.rbm:RBM",
        "deep-knn": "composed.deep_knn:DeepKNN",
        "co-clusters": "composed.co_clusters:CoClusters",
        "mixture": "baselines.mixtures:UserMixture",
        "plsa": "baselines.mixtures:PLSA",
    }
)
_CLASSES = {place.rpartition(":")[2]: place for place in MODELS.data.values()}
_CLASSES["Recommender"] = "base.recommender:Recommender"
_CLASSES["EmpiricalBayes"] = "factorization.empirical_bayes.settings:EmpiricalBayes"


if not TYPE_CHECKING:  # to a type checker, a name that is not imported above is an error

    def __getattr__(name: str) -> Any:
        if name not in _CLASSES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return kind_of(f"{__name__}.{_CLASSES[name]}")
