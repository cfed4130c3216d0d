"""What is believed: recommenders, one folder a family, and the table of their names."""

from __future__ import annotations

from tastespace.models.baselines.estimators import DampedBias, GlobalMean, Popular
from tastespace.models.factorization.estimators import ALS
from tastespace.models.recommender import Recommender

MODELS: dict[str, type[Recommender]] = {
    "mean": GlobalMean,
    "bias": DampedBias,
    "popular": Popular,
    "als": ALS,
}

__all__ = ["ALS", "MODELS", "DampedBias", "GlobalMean", "Popular", "Recommender"]
