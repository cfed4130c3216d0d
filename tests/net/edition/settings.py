"""The models of the cases with their settings: every one as usual but short, and what can be set about it."""

from __future__ import annotations

from typing import Any

# The table of models, as classes are called.
MODELS = {
    "mean": "GlobalMean",
    "bias": "DampedBias",
    "item-mean": "ItemMean",
    "popular": "Popular",
    "item-knn": "ItemKNN",
    "user-knn": "UserKNN",
    "als": "ALS",
    "pmf": "PMF",
    "vb": "VB",
    "bpmf": "BPMF",
    "sphere": "SphereBPMF",
    "sphere-als": "SphereALS",
    "implicit-als": "ImplicitALS",
    "logistic": "LogisticMF",
    "ease": "EASE",
    "monotone": "MonotoneMF",
}
SHORT_CHAINS = {"n_factors": 3, "warmup": 5, "draws": 6, "thin": 1}
SHORT: dict[str, dict[str, Any]] = {
    "als": {"n_factors": 4, "sweeps": 10},
    "pmf": {"n_factors": 4, "epochs": 12},
    "vb": {"n_factors": 4, "passes": 15},
    "bpmf": SHORT_CHAINS,
    "sphere": SHORT_CHAINS,
    "sphere-als": {"n_factors": 4, "sweeps": 8},
    "implicit-als": {"n_factors": 4, "sweeps": 6},
    "logistic": {"n_factors": 4, "epochs": 12},
    "monotone": {"n_factors": 3, "sweeps": 6, "folds": 3},
}
OF_CHOICES = ("implicit-als", "logistic", "ease")
EMPIRICAL = {"draws": 8, "most_steps": 12}

# model -> what is different -> (data, parameters)
VARIANTS: dict[str, dict[str, tuple[str, dict[str, Any]]]] = {
    "bpmf": {
        "ordinal": ("stars", {"likelihood": "ordinal"}),
        "ordinal of half stars": ("demo", {"likelihood": "ordinal"}),
        "ordinal with levels": ("stars", {"likelihood": "ordinal", "levels": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}),
        "probit": ("yes-no", {"likelihood": "probit"}),
        "logistic": ("yes-no", {"likelihood": "logistic"}),
        "noise of users and items": ("stars", {"noise": "per-user-and-item"}),
        "fixed noise": ("stars", {"noise_precision": 1.5}),
        "fixed uneven noise": ("stars", {"noise_precision": 1.5, "noise": "per-user-and-item"}),
        "ard": ("stars", {"prior": "ard"}),
        "cumulative": ("stars", {"prior": "cumulative"}),
        "normal-wishart": ("stars", {"prior": "normal-wishart", "prior_degrees": 20.0, "prior_scale": 0.3}),
        "auto factors": ("stars", {"n_factors": "auto", "most_factors": 6}),
        "auto factors, cumulative": ("stars", {"n_factors": "auto", "most_factors": 6, "prior": "cumulative"}),
        "auto factors, ordinal": ("stars", {"n_factors": "auto", "most_factors": 6, "likelihood": "ordinal"}),
        "ard of yes and no": ("yes-no", {"prior": "ard", "likelihood": "logistic"}),
        "uniform negatives": ("counts", {"likelihood": "logistic", "negatives": "uniform", "n_negatives": 3}),
        "popular negatives": ("one-class", {"likelihood": "probit", "negatives": "popularity", "n_negatives": 2}),
        "uniform negatives, probit": ("one-class", {"likelihood": "probit", "negatives": "uniform"}),
        "popular negatives, logistic": ("counts", {"likelihood": "logistic", "negatives": "popularity"}),
        "evidence": ("stars", {"weights": "evidence"}),
        "float16": ("stars", {"storage": "float16"}),
        "float64": ("stars", {"precision": "float64"}),
        "float64, ordinal": ("stars", {"precision": "float64", "likelihood": "ordinal"}),
        "random start": ("stars", {"start": "random", "chains": 1}),
        "no biases": ("stars", {"biases": False}),
        "no biases, ordinal": ("stars", {"biases": False, "likelihood": "ordinal"}),
        "inner sweeps": ("stars", {"inner_sweeps": 2, "thin": 2}),
        "counted draws": ("stars", {"draws": "auto", "warmup": 3}),
        "three chains": ("stars", {"chains": 3, "noise_shape": 2.0, "noise_rate": 0.5, "prior_strength": 1.0}),
    },
    "sphere": {
        "no biases": ("stars", {"biases": False}),
        "biases on the sphere": ("stars", {"biases": "on-sphere"}),
        "slice": ("stars", {"sampler": "slice", "chains": 1}),
        "metropolis": ("stars", {"sampler": "metropolis", "chains": 1}),
        "uniform": ("stars", {"item_prior": "uniform", "radius": 1.5, "item_steps": 4}),
        "slice of biases on the sphere": (
            "stars",
            {"biases": "on-sphere", "sampler": "slice", "item_prior": "uniform", "chains": 1},
        ),
        "ordinal": ("stars", {"likelihood": "ordinal"}),
        "logistic": ("yes-no", {"likelihood": "logistic", "sampler": "metropolis"}),
        "noise of users and items": ("stars", {"noise": "per-user-and-item"}),
        "negatives": ("counts", {"likelihood": "logistic", "negatives": "uniform", "n_negatives": 3}),
    },
    "sphere-als": {
        "fixed": ("stars", {"regularisation": 0.05, "radius": 1.2, "biases": False, "precision": "float64"}),
        "early stopping": ("stars", {"early_stopping": True}),
    },
    "vb": {
        "diagonal": ("stars", {"covariance": "diagonal"}),
        "hierarchical": ("stars", {"hierarchical": True}),
        "hierarchical and diagonal": ("stars", {"hierarchical": True, "covariance": "diagonal"}),
        "hierarchical without biases": ("stars", {"hierarchical": True, "biases": False, "precision": "float64"}),
        "raw": ("stars", {"centred": False}),
        "raw, diagonal, no biases": ("stars", {"centred": False, "covariance": "diagonal", "biases": False}),
        "variances": ("stars", {"prior": "variances"}),
        "both variances": ("stars", {"prior": "both variances", "start": "random"}),
        "fixed": ("stars", {"prior": "fixed", "noise_precision": 1.5}),
        "auto factors": ("stars", {"n_factors": "auto", "most_factors": 6}),
        "auto factors, longer": ("demo", {"n_factors": "auto", "most_factors": 12, "passes": 60}),
    },
    "pmf": {
        "raw": ("stars", {"form": "raw", "regularisation": 0.05}),
        "sigmoid": ("stars", {"form": "sigmoid"}),
        "adaptive": ("stars", {"regularisation": "adaptive"}),
        "full batch, weighted": ("stars", {"method": "full-batch", "weighting": "weighted", "regularisation": 0.05}),
        "mini-batch, plain": (
            "stars",
            {"method": "mini-batch", "batch_size": 80, "weighting": "plain", "regularisation": 1.0},
        ),
        "bold driver": ("stars", {"method": "full-batch", "schedule": "bold-driver", "regularisation": 0.05}),
        "no refit": ("stars", {"refit": False, "biases": False, "regularisation": 0.04, "precision": "float64"}),
        "no early stop": ("stars", {"early_stopping": False, "regularisation": 0.04, "learning_rate": 0.03}),
        "separate strengths": ("stars", {"user_regularisation": 0.03, "item_bias_regularisation": 0.5}),
        "empirical Bayes": ("stars", {"regularisation": "empirical-bayes:draws=8,most_steps=12"}),
    },
    "als": {
        "weighted": ("stars", {"weighting": "weighted"}),
        "plain": ("stars", {"weighting": "plain"}),
        "fixed": ("stars", {"regularisation": 0.05}),
        "fixed, no biases, float64": ("stars", {"regularisation": 0.05, "biases": False, "precision": "float64"}),
        "early stopping": ("stars", {"early_stopping": True, "validation_share": 0.2}),
        "separate strengths": ("stars", {"user_regularisation": 0.03, "item_bias_regularisation": 0.5}),
        "auto factors": ("stars", {"n_factors": "auto", "most_factors": 6}),
        "empirical Bayes": ("stars", {"regularisation": "empirical-bayes:draws=8,most_steps=12"}),
        "empirical Bayes, at rest": ("demo", {"regularisation": {"draws": 6, "most_steps": 60}}),
        "empirical Bayes, adam": ("stars", {"regularisation": {"steps": "adam", "tied": False, **EMPIRICAL}}),
        "empirical Bayes, crank-nicolson": (
            "stars",
            {"regularisation": {"transition": "crank-nicolson", "start": 0.1, **EMPIRICAL}},
        ),
        "empirical Bayes, autoregressive": (
            "stars",
            {"regularisation": {"transition": "autoregressive", **EMPIRICAL}, "biases": False},
        ),
    },
    "implicit-als": {
        "once": ("one-class", {"growth": "none"}),
        "biases": ("counts", {"biases": True, "growth": "linear", "strength": 5.0, "regularisation": 1.0}),
        "plain cholesky": ("counts", {"weighting": "plain", "solver": "cholesky", "strength": 8.0}),
        "fixed": ("counts", {"strength": 8.0, "regularisation": 0.5, "steps": 2}),
    },
    "logistic": {
        "uniform": ("counts", {"negatives": "uniform", "n_negatives": 5, "regularisation": 0.5}),
        "popularity": ("counts", {"negatives": "popularity", "n_negatives": 4, "strength": 0.5, "growth": "linear"}),
        "no biases": ("one-class", {"biases": False, "learning_rate": 0.1}),
    },
    "ease": {"weak": ("counts", {"regularisation": 5.0}), "once": ("one-class", {})},
    "item-knn": {
        "pearson": ("stars", {"similarity": "pearson", "n_neighbours": 5, "n_candidates": 10, "damping": 0.0}),
        "adjusted cosine": ("stars", {"similarity": "adjusted-cosine", "min_common": 3, "min_similarity": 0.1}),
    },
    "user-knn": {
        "pearson": ("stars", {"similarity": "pearson", "n_neighbours": 5, "min_common": 2}),
        "adjusted cosine": ("stars", {"similarity": "adjusted-cosine", "shrinkage": 1.0}),
    },
    "bias": {"damped": ("stars", {"user_damping": 1.0, "item_damping": 20.0, "sweeps": 3})},
    "item-mean": {"damped": ("stars", {"damping": 2.0})},
    "popular": {"counts": ("counts", {})},
    "monotone": {
        "one": ("stars", {"sharing": "one", "regularisation": 0.05}),
        "per user": ("stars", {"sharing": "per-user", "regularisation": 0.05, "pull": 2.0}),
        "clusters": ("stars", {"sharing": "clusters", "n_clusters": 3, "regularisation": 0.05, "precision": "float64"}),
        "found clusters": ("demo", {"sharing": "clusters"}),
        "one fold": ("stars", {"sharing": "one", "folds": 1, "regularisation": 0.05}),
        "empirical Bayes": ("stars", {"sharing": "one", "regularisation": "empirical-bayes:draws=8,most_steps=12"}),
    },
}
# Models that get new ratings: parameters, and the data.
UPDATED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "als": ("als", "stars", {}),
    "item-knn": ("item-knn", "stars", {}),
    "vb": ("vb", "stars", {}),
    "bpmf": ("bpmf", "stars", {}),
    "bpmf, ordinal": ("bpmf", "stars", {"likelihood": "ordinal"}),
    "bpmf, logistic": ("bpmf", "yes-no", {"likelihood": "logistic"}),
    "bpmf, noise of users and items": ("bpmf", "stars", {"noise": "per-user-and-item"}),
    "bpmf, negatives": ("bpmf", "counts", {"likelihood": "logistic", "negatives": "uniform", "n_negatives": 3}),
    "bpmf, auto factors": ("bpmf", "stars", {"n_factors": "auto", "most_factors": 6}),
    "bpmf, evidence": ("bpmf", "stars", {"weights": "evidence"}),
    "sphere": ("sphere", "stars", {}),
    "implicit-als": ("implicit-als", "counts", {}),
}
CHECKPOINTED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bpmf": ("bpmf", "stars", {}),
    "bpmf, ordinal": ("bpmf", "stars", {"likelihood": "ordinal"}),
    "bpmf, auto factors": ("bpmf", "stars", {"n_factors": "auto", "most_factors": 6}),
    "bpmf, noise of users and items": ("bpmf", "stars", {"noise": "per-user-and-item"}),
    "sphere": ("sphere", "stars", {}),
}
