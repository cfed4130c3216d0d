"""Every model with so little to do that a test of something else need not wait for it."""

from __future__ import annotations

from tastespace.models import MODELS

SHORT = {"n_factors": 2, "warmup": 3, "draws": 3, "chains": 1, "passes": 3, "epochs": 3}


def short_model(name, **more):
    """The model of this name, with those of the short settings that it has."""
    model = MODELS[name]().set_params(seed=0)
    return model.set_params(**{key: value for key, value in SHORT.items() if hasattr(model, key)}, **more)
