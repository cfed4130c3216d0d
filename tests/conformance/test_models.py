"""Every model of the table goes through the conformance suite."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tastespace import Logistic, Ordinal, Probit
from tastespace.models import (
    ALS,
    BPMF,
    EASE,
    MODELS,
    PLSA,
    PMF,
    RBM,
    VB,
    AutoRec,
    Blend,
    CoClusters,
    ContentProfile,
    DampedBias,
    DeepKNN,
    GlobalMean,
    ImplicitALS,
    ItemKNN,
    ItemMean,
    Joint,
    LogisticMF,
    MonotoneMF,
    Popular,
    SparseFC,
    SphereALS,
    SphereBPMF,
    UserKNN,
    UserMixture,
)
from tastespace.randomness import generator
from tastespace.testing.conformance import OneClassConformance, RecommenderConformance
from tastespace.testing.toys import checkerboard, tastes

# The chains are short for tests to be fast.
SHORT = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")


class TestALS(RecommenderConformance):
    def make(self, **parameters):
        return ALS(n_factors=4, **parameters)


class TestFixedALS(RecommenderConformance):
    def make(self, **parameters):
        return ALS(n_factors=3, regularization=0.05, weighting="weighted", **parameters)


class TestALSWithoutBiases(RecommenderConformance):
    def make(self, **parameters):
        return ALS(n_factors=4, regularization=1.0, weighting="plain", biases=False, precision="float64", **parameters)


@SHORT
class TestEmpiricalALS(RecommenderConformance):
    keeps_users = False
    explanations_add_up = False  # a stranger is predicted as the mean of the draws, not draw by draw

    def make(self, **parameters):
        return ALS(n_factors=4, regularization="empirical-bayes:draws=20", **parameters)


class TestPMF(RecommenderConformance):
    def make(self, **parameters):
        return PMF(n_factors=4, **parameters)


class TestFullBatchPMF(RecommenderConformance):
    explanations_add_up = False  # raw: a stranger is average, and somebody who rates as one would is pulled to zero

    def make(self, **parameters):
        fixed = {"regularization": 0.05, "weighting": "weighted", "precision": "float64"}
        return PMF(n_factors=4, method="full-batch", form="raw", **fixed, **parameters)


class TestAdaptivePMFWithoutBiases(RecommenderConformance):
    def make(self, **parameters):
        ways = {"method": "mini-batch", "batch_size": 50, "regularization": "adaptive", "refit": False}
        return PMF(n_factors=4, biases=False, **ways, **parameters)


@SHORT
class TestEmpiricalPMF(RecommenderConformance):
    keeps_users = False
    explanations_add_up = False

    def make(self, **parameters):
        return PMF(n_factors=4, regularization="empirical-bayes:draws=20", **parameters)


class TestSigmoidPMF(RecommenderConformance):
    explanations_add_up = False  # what a rating adds to the score, the sigmoid squeezes

    def make(self, **parameters):
        return PMF(n_factors=4, form="sigmoid", **parameters)


@SHORT
class TestBPMF(RecommenderConformance):
    keeps_users = False
    explanations_add_up = False  # a stranger is predicted as the mean of the draws, not draw by draw

    def make(self, **parameters):
        return BPMF(n_factors=4, warmup=20, draws=20, thin=1, **parameters)


@SHORT
class TestJoint(RecommenderConformance):
    keeps_users = scores_are_ratings = False
    explanations_add_up = False  # a stranger is predicted as the mean of the draws, not draw by draw

    def make(self, **parameters):
        return Joint(n_factors=4, warmup=20, draws=20, thin=1, **parameters)


@SHORT
class TestBPMFWithoutBiases(RecommenderConformance):
    keeps_users = False
    explanations_add_up = False  # a stranger is predicted as the mean of the draws, not draw by draw

    def make(self, **parameters):
        return BPMF(
            n_factors=4,
            warmup=20,
            draws=40,
            thin=1,
            chains=1,
            biases=False,
            start="random",
            precision="float64",
            likelihood="gaussian:precision=2",
            storage="float16",
            **parameters,
        )


@SHORT
class TestUnevenBPMF(RecommenderConformance):
    keeps_users = False
    explanations_add_up = False

    def make(self, **parameters):
        return BPMF(n_factors=4, warmup=20, draws=20, thin=1, likelihood="heteroscedastic", **parameters)


@SHORT
class TestOrdinalBPMF(RecommenderConformance):
    keeps_users = False
    explanations_add_up = False

    def make(self, **parameters):
        levels = [1.0, 2.0, 3.0, 4.0, 5.0]
        return BPMF(n_factors=4, warmup=20, draws=20, thin=1, likelihood=Ordinal(levels=levels), **parameters)

    @pytest.fixture
    def ratings(self):
        drawn = tastes(40, 30, rng=generator(3))[0]
        return replace(drawn, values=np.clip(np.round(drawn.values), 1, 5))


@SHORT
class TestOrdinalJoint(TestOrdinalBPMF):
    scores_are_ratings = False

    def make(self, **parameters):
        ways = {"likelihood": Ordinal(levels=[1.0, 2.0, 3.0, 4.0, 5.0]), "weight": 1.0, "regularization": 50.0}
        return Joint(n_factors=4, warmup=20, draws=20, thin=1, **ways, **parameters)


class TestVB(RecommenderConformance):
    keeps_users = False
    explanations_add_up = False  # ratings as a stranger's say something, too: factors and bias of an item go together

    def make(self, **parameters):
        return VB(n_factors=4, **parameters)


class TestHierarchicalVB(RecommenderConformance):
    keeps_users = False
    explanations_add_up = False  # a stranger has factors, which meet the spread of the items

    def make(self, **parameters):
        return VB(n_factors=4, hierarchical=True, biases=False, centred=False, precision="float64", **parameters)


class TestFactorizedVB(RecommenderConformance):
    keeps_users = False

    def make(self, **parameters):
        return VB(n_factors=4, covariance="diagonal", **parameters)


class TestGlobalMean(RecommenderConformance):
    is_personal = False

    def make(self, **parameters):
        return GlobalMean(**parameters)


class TestPopular(RecommenderConformance):
    is_personal = False
    scores_are_ratings = False

    def make(self, **parameters):
        return Popular(**parameters)


class TestContentProfile(RecommenderConformance):
    """Items are known by the parity and the size of their numbers, as on the board."""

    keeps_users = False
    explanations_add_up = False

    def make(self, **parameters):
        return ContentProfile(**parameters)

    @pytest.fixture
    def ratings(self):
        return self.featured(tastes(40, 30, rng=generator(3))[0])

    def board(self, size):
        return self.featured(checkerboard(size))

    def test_relabelled_ids_give_relabelled_answers(self, fitted, ratings):
        pytest.skip("the features go by the ids here")

    def featured(self, ratings):
        of_items = {item: {"parity": str(item % 2), "third": str(item % 3)} for item in ratings.items.ids}
        return ratings.with_item_features(of_items)


class TestItemMean(RecommenderConformance):
    is_personal = False

    def make(self, **parameters):
        return ItemMean(**parameters)


class TestItemKNN(RecommenderConformance):
    def make(self, **parameters):
        return ItemKNN(**parameters)


class TestPearsonItemKNN(RecommenderConformance):
    def make(self, **parameters):
        return ItemKNN(similarity="pearson", n_neighbours=5, n_candidates=10, damping=0.0, **parameters)


class TestUserKNN(RecommenderConformance):
    explanations_add_up = False  # a rating also decides who is similar

    def make(self, **parameters):
        return UserKNN(**parameters)


class TestAdjustedCosineUserKNN(RecommenderConformance):
    explanations_add_up = False  # a rating also decides who is similar

    def make(self, **parameters):
        return UserKNN(similarity="adjusted-cosine", n_neighbours=5, min_common=2, shrinkage=1.0, **parameters)


class TestDampedBias(RecommenderConformance):
    is_personal = False

    def make(self, **parameters):
        return DampedBias(**parameters)


class TestEASE(OneClassConformance):
    def make(self, **parameters):
        return EASE(regularization=5.0, **parameters)


@SHORT
class TestSphereBPMF(RecommenderConformance):
    keeps_users = False
    explanations_add_up = False

    def make(self, **parameters):
        return SphereBPMF(n_factors=4, warmup=20, draws=20, thin=1, **parameters)


@SHORT
class TestJointSphereBPMF(RecommenderConformance):
    """Factors and bias on one sphere, by slices."""

    keeps_users = False
    explanations_add_up = False

    def make(self, **parameters):
        return SphereBPMF(
            n_factors=4,
            warmup=20,
            draws=20,
            thin=1,
            chains=1,
            biases="on-sphere",
            sampler="slice",
            item_prior="uniform",
            **parameters,
        )


class TestSphereALS(RecommenderConformance):
    def make(self, **parameters):
        return SphereALS(n_factors=4, **parameters)


class TestMonotoneMF(RecommenderConformance):
    explanations_add_up = False  # what a rating adds to the score, the inverse of the curve bends

    def make(self, **parameters):
        return MonotoneMF(n_factors=4, sharing="one", regularization=0.05, **parameters)


@SHORT
class TestEmpiricalCurves(RecommenderConformance):
    keeps_users = False
    explanations_add_up = False

    def make(self, **parameters):
        return MonotoneMF(n_factors=4, sharing="one", regularization="empirical-bayes:draws=20", **parameters)


class TestCurvePerUser(RecommenderConformance):
    explanations_add_up = False

    def make(self, **parameters):
        return MonotoneMF(n_factors=4, sharing="per-user", regularization=0.05, pull=2.0, **parameters)


class TestCurvePerCluster(RecommenderConformance):
    explanations_add_up = False

    def make(self, **parameters):
        fixed = {"n_clusters": 3, "regularization": 0.05, "pull": 2.0, "precision": "float64"}
        return MonotoneMF(n_factors=4, sharing="clusters", folds=3, **fixed, **parameters)

    @pytest.fixture
    def ratings(self):
        drawn = tastes(40, 30, rng=generator(3))[0]
        return replace(drawn, values=np.clip(np.round(drawn.values), 1, 5))


class TestImplicitALS(OneClassConformance):
    explanations_add_up = False  # what was chosen also says how much all else counts

    def make(self, **parameters):
        return ImplicitALS(n_factors=4, regularization=1.0, strength=10.0, **parameters)


class TestAutomaticImplicitALS(OneClassConformance):
    explanations_add_up = False

    def make(self, **parameters):
        return ImplicitALS(n_factors=3, sweeps=8, **parameters)


class TestImplicitALSWithBiases(OneClassConformance):
    explanations_add_up = False

    def make(self, **parameters):
        return ImplicitALS(
            n_factors=4,
            regularization=1.0,
            strength=5.0,
            growth="linear",
            weighting="plain",
            biases=True,
            solver="cholesky",
            **parameters,
        )


class TestBlend(OneClassConformance):
    explanations_add_up = False  # what was chosen also says how much all else counts

    def make(self, **parameters):
        return Blend(n_factors=4, regularization=1.0, strength=10.0, linear_regularization=5.0, **parameters)


class TestAutomaticBlend(OneClassConformance):
    explanations_add_up = False

    def make(self, **parameters):
        return Blend(n_factors=3, sweeps=8, **parameters)


class TestLogisticMF(OneClassConformance):
    explanations_add_up = False  # the sum of log odds is no sum of chances

    def make(self, **parameters):
        return LogisticMF(n_factors=4, regularization=0.5, n_negatives=5, epochs=60, **parameters)


class TestPopularityLogisticMF(OneClassConformance):
    explanations_add_up = False

    def make(self, **parameters):
        return LogisticMF(
            n_factors=4,
            regularization=0.3,
            negatives="popularity",
            n_negatives=4,
            strength=0.5,
            growth="linear",
            biases=False,
            epochs=80,
            **parameters,
        )


@SHORT
class TestLogisticBPMFOfChoices(OneClassConformance):
    explanations_add_up = False

    def make(self, **parameters):
        return BPMF(
            n_factors=4,
            warmup=30,
            draws=25,
            thin=1,
            likelihood=Logistic(negatives="uniform", n_negatives=5),
            **parameters,
        )


@SHORT
class TestProbitBPMFOfChoices(OneClassConformance):
    explanations_add_up = False

    def make(self, **parameters):
        return BPMF(
            n_factors=4,
            warmup=30,
            draws=25,
            thin=1,
            likelihood=Probit(negatives="popularity", n_negatives=4),
            **parameters,
        )


class TestCoClusters(RecommenderConformance):
    explanations_add_up = False  # a rating also decides who is similar

    def make(self, **parameters):
        return CoClusters(n_factors=4, n_neighbors=6, **parameters)


class TestDeepKNN(RecommenderConformance):
    explanations_add_up = False  # a rating also decides who is similar

    def make(self, **parameters):
        return DeepKNN(n_features=6, n_factors=4, epochs=5, n_neighbors=10, **parameters)


@pytest.mark.deep
class TestAutoencoderKNN(RecommenderConformance):
    explanations_add_up = False

    def make(self, **parameters):
        ways = {"features": "autoencoder", "n_features": 4, "n_hidden": 10, "epochs": 60, "bandwidth": 0.1}
        return DeepKNN(n_factors=4, n_neighbors=5, **ways, **parameters)


class TestUserMixture(RecommenderConformance):
    keeps_users = explanations_add_up = False

    def make(self, **parameters):
        return UserMixture(n_clusters=3, shrinkage=1.0, **parameters)


class TestPLSA(RecommenderConformance):
    keeps_users = explanations_add_up = False

    def make(self, **parameters):
        return PLSA(n_clusters=3, shrinkage=1.0, **parameters)


class TestRBM(RecommenderConformance):
    keeps_users = explanations_add_up = False

    def make(self, **parameters):
        return RBM(n_hidden=8, learning_rate=0.02, batch_size=10, weight_decay=0.001, **parameters)

    @pytest.fixture
    def ratings(self):
        drawn = tastes(40, 30, rng=generator(3))[0]
        return replace(drawn, values=np.clip(np.round(drawn.values), 1, 5))


@pytest.mark.deep
class TestAutoRec(RecommenderConformance):
    def make(self, **parameters):
        return AutoRec(n_hidden=12, regularization=1.0, iterations=60, **parameters)


@pytest.mark.deep
class TestUserAutoRec(RecommenderConformance):
    keeps_users = explanations_add_up = False

    def make(self, **parameters):
        return AutoRec(side="users", n_hidden=12, regularization=1.0, iterations=60, ensemble=2, **parameters)


@pytest.mark.deep
class TestSparseFC(RecommenderConformance):
    def make(self, **parameters):
        return SparseFC(n_hidden=12, regularization=0.3, iterations=60, **parameters)


def test_every_model_is_here():
    suites = [suite for name, suite in globals().items() if name.startswith("Test")]
    missing = set(MODELS.values()) - {type(suite().make()) for suite in suites}
    assert not missing, "a model of the table has no conformance class in this file"


def test_the_suite_can_fail():
    """A broken recommender does not get through: the checkerboard catches a model without tastes."""

    class Broken(RecommenderConformance):
        def make(self, **parameters):
            return GlobalMean(**parameters)

    with pytest.raises(AssertionError):
        Broken().test_checkerboard()
