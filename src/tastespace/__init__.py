"""Bayesian recommender systems: recommendations that know how sure they are."""

from importlib.metadata import version as _version

from tastespace.data.ratings import Ratings
from tastespace.data.splitting import Split, random_split
from tastespace.models import ALS, MODELS, DampedBias, GlobalMean, Popular, Recommender

__version__ = _version("tastespace")
