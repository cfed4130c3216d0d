"""Bayesian recommender systems: recommendations that know how sure they are."""

from tastespace.artifact import load, save
from tastespace.data.files import read
from tastespace.data.ratings import Ratings
from tastespace.data.splitting import Split, random_split
from tastespace.evaluation.evaluate import Report, evaluate
from tastespace.models import ALS, DampedBias, GlobalMean, Popular, Recommender
from tastespace.models.posterior import Prediction
from tastespace.ranking import Ranking
from tastespace.version import __version__

__all__ = [
    "ALS",
    "DampedBias",
    "GlobalMean",
    "Popular",
    "Prediction",
    "Ranking",
    "Ratings",
    "Recommender",
    "Report",
    "Split",
    "__version__",
    "evaluate",
    "load",
    "random_split",
    "read",
    "save",
]
