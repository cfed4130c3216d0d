"""What is believed: recommenders, one folder a family, and the table of their names."""

from __future__ import annotations

from tastespace.models.baselines.estimators import DampedBias, GlobalMean, ItemMean, Popular
from tastespace.models.factorization.bpmf import BPMF
from tastespace.models.factorization.empirical_bayes.settings import EmpiricalBayes
from tastespace.models.factorization.estimators import ALS
from tastespace.models.factorization.monotone.estimator import MonotoneMF
from tastespace.models.factorization.one_class.estimators import ImplicitALS
from tastespace.models.factorization.one_class.logistic_mf import LogisticMF
from tastespace.models.factorization.pmf import PMF
from tastespace.models.factorization.sphere.sphere_als import SphereALS
from tastespace.models.factorization.sphere.sphere_bpmf import SphereBPMF
from tastespace.models.factorization.variational.vb import VB
from tastespace.models.linear.estimators import EASE
from tastespace.models.neighbours.estimators import ItemKNN, UserKNN
from tastespace.models.recommender import Recommender

MODELS: dict[str, type[Recommender]] = {
    "mean": GlobalMean,
    "bias": DampedBias,
    "item-mean": ItemMean,
    "popular": Popular,
    "item-knn": ItemKNN,
    "user-knn": UserKNN,
    "als": ALS,
    "pmf": PMF,
    "vb": VB,
    "bpmf": BPMF,
    "sphere": SphereBPMF,
    "sphere-als": SphereALS,
    "implicit-als": ImplicitALS,
    "logistic": LogisticMF,
    "ease": EASE,
    "monotone": MonotoneMF,
}

__all__ = [
    "ALS",
    "BPMF",
    "EASE",
    "MODELS",
    "PMF",
    "VB",
    "DampedBias",
    "EmpiricalBayes",
    "GlobalMean",
    "ImplicitALS",
    "ItemKNN",
    "ItemMean",
    "LogisticMF",
    "MonotoneMF",
    "Popular",
    "Recommender",
    "SphereALS",
    "SphereBPMF",
    "UserKNN",
]
