"""Bayesian recommender systems: recommendations that know how sure they are."""

from tastespace.artifact import load, save
from tastespace.data.files import read
from tastespace.data.ratings import Ratings
from tastespace.data.splitting import (
    Split,
    held_out_users,
    k_fold,
    last_per_user,
    leave_one_out,
    random_split,
    time_split,
)
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
    "held_out_users",
    "k_fold",
    "last_per_user",
    "leave_one_out",
    "load",
    "random_split",
    "read",
    "save",
    "time_split",
]
