"""What is believed: recommenders, one folder a family, and the table of their names."""

from __future__ import annotations

from tastespace.models.base.recommender import Recommender
from tastespace.models.baselines.baselines import DampedBias, GlobalMean, ItemMean, Popular
from tastespace.models.factorization.als.als import ALS
from tastespace.models.factorization.empirical_bayes.settings import EmpiricalBayes
from tastespace.models.factorization.gibbs.bpmf import BPMF
from tastespace.models.factorization.implicit.implicit_als import ImplicitALS
from tastespace.models.factorization.implicit.logistic_mf import LogisticMF
from tastespace.models.factorization.monotone.monotone import MonotoneMF
from tastespace.models.factorization.sgd.pmf import PMF
from tastespace.models.factorization.sphere.sphere_als import SphereALS
from tastespace.models.factorization.sphere.sphere_bpmf import SphereBPMF
from tastespace.models.factorization.vb.vb import VB
from tastespace.models.linear.posterior import EASE
from tastespace.models.neighbors.knn import ItemKNN, UserKNN

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
