"""Bayesian recommender systems: recommendations that know how sure they are."""

from tastespace.artifact import load, save
from tastespace.data.files import read
from tastespace.data.ratings import Ratings
from tastespace.data.shapes import Shape
from tastespace.data.sources import load as dataset
from tastespace.data.splitting import (
    Split,
    held_out_users,
    k_fold,
    last_per_user,
    leave_one_out,
    random_split,
    time_split,
)
from tastespace.data.synthetic import synthetic
from tastespace.evaluation.compare import Comparison, Comparisons, compare
from tastespace.evaluation.contest import contest
from tastespace.evaluation.contest_result import Contest
from tastespace.evaluation.evaluate import evaluate
from tastespace.evaluation.rank import choose_rank, compare_ranks
from tastespace.evaluation.rank_choice import RankChoice, RankChoices
from tastespace.evaluation.report import Report
from tastespace.inference.checkpoints import Checkpoints
from tastespace.models import (
    ALS,
    BPMF,
    EASE,
    PMF,
    VB,
    DampedBias,
    EmpiricalBayes,
    GlobalMean,
    ImplicitALS,
    ItemKNN,
    ItemMean,
    LogisticMF,
    MonotoneMF,
    Popular,
    Recommender,
    SphereALS,
    SphereBPMF,
    UserKNN,
)
from tastespace.models.explaining import Explanation
from tastespace.models.factorization.jump.run import ReversibleJump
from tastespace.models.policies import Cautious, Curious, Likely, Mean, Thompson
from tastespace.models.posterior import Prediction
from tastespace.models.similar import Similar
from tastespace.models.suitable import suitable_model
from tastespace.ranking import Ranking
from tastespace.report.contest_figures import write_contest
from tastespace.report.evaluation_page import write_evaluation
from tastespace.report.rank_figures import write_ranks
from tastespace.tuning.result import TuneResult, TuneTrial
from tastespace.tuning.tune import tune
from tastespace.version import __version__

__all__ = [
    "ALS",
    "BPMF",
    "EASE",
    "PMF",
    "VB",
    "Cautious",
    "Checkpoints",
    "Comparison",
    "Comparisons",
    "Contest",
    "Curious",
    "DampedBias",
    "EmpiricalBayes",
    "Explanation",
    "GlobalMean",
    "ImplicitALS",
    "ItemKNN",
    "ItemMean",
    "Likely",
    "LogisticMF",
    "Mean",
    "MonotoneMF",
    "Popular",
    "Prediction",
    "RankChoice",
    "RankChoices",
    "Ranking",
    "Ratings",
    "Recommender",
    "Report",
    "ReversibleJump",
    "Shape",
    "Similar",
    "SphereALS",
    "SphereBPMF",
    "Split",
    "Thompson",
    "TuneResult",
    "TuneTrial",
    "UserKNN",
    "__version__",
    "choose_rank",
    "compare",
    "compare_ranks",
    "contest",
    "dataset",
    "evaluate",
    "held_out_users",
    "k_fold",
    "last_per_user",
    "leave_one_out",
    "load",
    "random_split",
    "read",
    "save",
    "suitable_model",
    "synthetic",
    "time_split",
    "tune",
    "write_contest",
    "write_evaluation",
    "write_ranks",
]
