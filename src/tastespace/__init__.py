"""Bayesian recommender systems: recommendations with honest uncertainty.

Public names are imported on first use (PEP 562), so that `import tastespace` itself costs next to nothing.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tastespace.version import __version__ as __version__

if TYPE_CHECKING:
    from tastespace.artifact import load as load
    from tastespace.artifact import save as save
    from tastespace.data.formats.files import read as read
    from tastespace.data.ratings import Ratings as Ratings
    from tastespace.data.shapes import Shape as Shape
    from tastespace.data.sources import dataset as dataset
    from tastespace.data.splits import Split as Split
    from tastespace.data.splits import held_out_users as held_out_users
    from tastespace.data.splits import k_fold as k_fold
    from tastespace.data.splits import last_per_user as last_per_user
    from tastespace.data.splits import leave_one_out as leave_one_out
    from tastespace.data.splits import random_split as random_split
    from tastespace.data.splits import time_split as time_split
    from tastespace.data.synthetic import synthetic as synthetic
    from tastespace.evaluation.evaluate import evaluate as evaluate
    from tastespace.evaluation.report import Report as Report
    from tastespace.evaluation.significance import Comparison as Comparison
    from tastespace.evaluation.significance import Comparisons as Comparisons
    from tastespace.evaluation.significance import compare_reports as compare_reports
    from tastespace.inference.checkpoints import Checkpoints as Checkpoints
    from tastespace.models.base.attribution import Explanation as Explanation
    from tastespace.models.base.policies import Cautious as Cautious
    from tastespace.models.base.policies import Curious as Curious
    from tastespace.models.base.policies import Likely as Likely
    from tastespace.models.base.policies import Mean as Mean
    from tastespace.models.base.policies import Thompson as Thompson
    from tastespace.models.base.recommender import Recommender as Recommender
    from tastespace.models.base.results import Prediction as Prediction
    from tastespace.models.base.results import Ranking as Ranking
    from tastespace.models.base.similarity import Similar as Similar
    from tastespace.models.baselines.baselines import DampedBias as DampedBias
    from tastespace.models.baselines.baselines import GlobalMean as GlobalMean
    from tastespace.models.baselines.baselines import ItemMean as ItemMean
    from tastespace.models.baselines.baselines import Popular as Popular
    from tastespace.models.factorization.als.als import ALS as ALS
    from tastespace.models.factorization.empirical_bayes.settings import EmpiricalBayes as EmpiricalBayes
    from tastespace.models.factorization.gibbs.bpmf import BPMF as BPMF
    from tastespace.models.factorization.implicit.implicit_als import ImplicitALS as ImplicitALS
    from tastespace.models.factorization.implicit.logistic_mf import LogisticMF as LogisticMF
    from tastespace.models.factorization.likelihoods.gaussian import Gaussian as Gaussian
    from tastespace.models.factorization.likelihoods.heteroscedastic import (
        HeteroscedasticGaussian as HeteroscedasticGaussian,
    )
    from tastespace.models.factorization.likelihoods.logistic import Logistic as Logistic
    from tastespace.models.factorization.likelihoods.ordinal import Ordinal as Ordinal
    from tastespace.models.factorization.likelihoods.probit import Probit as Probit
    from tastespace.models.factorization.monotone.monotone import MonotoneMF as MonotoneMF
    from tastespace.models.factorization.priors.normal_wishart import NormalWishart as NormalWishart
    from tastespace.models.factorization.priors.shrinkage import Shrinkage as Shrinkage
    from tastespace.models.factorization.rank.reversible_jump import ReversibleJump as ReversibleJump
    from tastespace.models.factorization.sgd.pmf import PMF as PMF
    from tastespace.models.factorization.sphere.sphere import SphereALS as SphereALS
    from tastespace.models.factorization.sphere.sphere import SphereBPMF as SphereBPMF
    from tastespace.models.factorization.vb.vb import VB as VB
    from tastespace.models.linear.ease import EASE as EASE
    from tastespace.models.neighbors.knn import ItemKNN as ItemKNN
    from tastespace.models.neighbors.knn import UserKNN as UserKNN
    from tastespace.models.registry import suitable_model as suitable_model
    from tastespace.report.comparison_figures import write_comparison as write_comparison
    from tastespace.report.evaluation_page import write_evaluation as write_evaluation
    from tastespace.report.rank_figures import write_ranks as write_ranks
    from tastespace.selection.compare_models import compare_models as compare_models
    from tastespace.selection.comparison import ModelComparison as ModelComparison
    from tastespace.selection.select_rank import RankChoice as RankChoice
    from tastespace.selection.select_rank import RankChoices as RankChoices
    from tastespace.selection.select_rank import choose_rank as choose_rank
    from tastespace.selection.select_rank import compare_ranks as compare_ranks
    from tastespace.selection.tune import TuneResult as TuneResult
    from tastespace.selection.tune import TuneTrial as TuneTrial
    from tastespace.selection.tune import tune as tune

# Where each public name lives; the imports above say the same to type checkers, and a test compares the two.
_NAMES = {
    "artifact": "load save",
    "data.formats.files": "read",
    "data.ratings": "Ratings",
    "data.shapes": "Shape",
    "data.sources": "dataset",
    "data.splits": "Split held_out_users k_fold last_per_user leave_one_out random_split time_split",
    "data.synthetic": "synthetic",
    "evaluation.evaluate": "evaluate",
    "evaluation.report": "Report",
    "evaluation.significance": "Comparison Comparisons compare_reports",
    "inference.checkpoints": "Checkpoints",
    "models.base.attribution": "Explanation",
    "models.base.policies": "Cautious Curious Likely Mean Thompson",
    "models.base.recommender": "Recommender",
    "models.base.results": "Prediction Ranking",
    "models.base.similarity": "Similar",
    "models.baselines.baselines": "DampedBias GlobalMean ItemMean Popular",
    "models.factorization.als.als": "ALS",
    "models.factorization.empirical_bayes.settings": "EmpiricalBayes",
    "models.factorization.gibbs.bpmf": "BPMF",
    "models.factorization.implicit.implicit_als": "ImplicitALS",
    "models.factorization.implicit.logistic_mf": "LogisticMF",
    "models.factorization.likelihoods.gaussian": "Gaussian",
    "models.factorization.likelihoods.heteroscedastic": "HeteroscedasticGaussian",
    "models.factorization.likelihoods.logistic": "Logistic",
    "models.factorization.likelihoods.ordinal": "Ordinal",
    "models.factorization.likelihoods.probit": "Probit",
    "models.factorization.monotone.monotone": "MonotoneMF",
    "models.factorization.priors.normal_wishart": "NormalWishart",
    "models.factorization.priors.shrinkage": "Shrinkage",
    "models.factorization.rank.reversible_jump": "ReversibleJump",
    "models.factorization.sgd.pmf": "PMF",
    "models.factorization.sphere.sphere": "SphereALS SphereBPMF",
    "models.factorization.vb.vb": "VB",
    "models.linear.ease": "EASE",
    "models.neighbors.knn": "ItemKNN UserKNN",
    "models.registry": "suitable_model",
    "report.comparison_figures": "write_comparison",
    "report.evaluation_page": "write_evaluation",
    "report.rank_figures": "write_ranks",
    "selection.compare_models": "compare_models",
    "selection.comparison": "ModelComparison",
    "selection.select_rank": "RankChoice RankChoices choose_rank compare_ranks",
    "selection.tune": "TuneResult TuneTrial tune",
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}
# First-edition names that still work.
_RENAMED = {
    "compare": "compare_reports",
    "contest": "compare_models",
    "Contest": "ModelComparison",
    "write_contest": "write_comparison",
}

__all__ = sorted([*_MODULES, "__version__"])  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        new = _RENAMED[name]
        warnings.warn(f"tastespace.{name} is now tastespace.{new}", DeprecationWarning, stacklevel=2)
        return __getattr__(new)
    if name not in _MODULES:
        raise AttributeError(f"module 'tastespace' has no attribute {name!r}")
    found = getattr(import_module(f"tastespace.{_MODULES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
