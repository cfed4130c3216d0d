"""Settings as objects and as text: one form everywhere, old spellings and new."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tastespace import (
    ALS,
    BPMF,
    EASE,
    PMF,
    Blend,
    Cautious,
    EmpiricalBayes,
    Gaussian,
    HeteroscedasticGaussian,
    ImplicitALS,
    Joint,
    Logistic,
    LogisticMF,
    MonotoneMF,
    NormalWishart,
    Ordinal,
    Probit,
    Ratings,
    Shrinkage,
    SphereALS,
    SphereBPMF,
    load,
    save,
)
from tastespace.cli.main import app
from tastespace.errors import InvalidParameterError
from tastespace.models.base.policies import policy_of
from tastespace.models.factorization.empirical_bayes.settings import empirical_bayes_of
from tastespace.models.factorization.likelihoods.base import likelihood_of
from tastespace.models.factorization.priors.normal_wishart import prior_of
from tastespace.settings import PARAMETERS, translated

SHORT = {"n_factors": 2, "chains": 1, "warmup": 3, "draws": 20, "thin": 1, "seed": 1, "threads": 1}
quick = pytest.mark.filterwarnings("ignore::tastespace.errors.ConvergenceWarning")


def stars():
    return Ratings.from_arrays([0, 0, 1, 1, 2, 2], [0, 1, 0, 2, 1, 2], [1.0, 3.0, 2.0, 3.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("gaussian", Gaussian()),
        ("gaussian:precision=0.25", Gaussian(precision=0.25)),
        ("heteroscedastic:shape=2,rate=0.5", HeteroscedasticGaussian(shape=2.0, rate=0.5)),
        ("ordinal", Ordinal()),
        ("ordinal:levels=1,2.5,3", Ordinal(levels=[1, 2.5, 3])),
        ("probit:negatives=popularity,n_negatives=4", Probit(negatives="popularity", n_negatives=4)),
        ("logistic:offset=-0.5", Logistic(offset=-0.5)),
        ("normal-wishart", NormalWishart()),
        ("ard", Shrinkage()),
        ("cumulative:max_factors=16", Shrinkage("cumulative", max_factors=16)),
        ("cautious:c=2", Cautious(c=2.0)),
        ("empirical-bayes:steps=adam,draws=7", EmpiricalBayes(steps="adam", draws=7)),
    ],
)
def test_settings_are_a_text_and_back(text, settings):
    ways = (likelihood_of, lambda given: prior_of(given, 4), policy_of, empirical_bayes_of)
    (read,) = (way for way, kind in zip(ways, KINDS, strict=True) if isinstance(settings, kind))
    assert str(settings) == text
    assert read(text) == settings
    assert read(settings) is settings


KINDS = (
    (Gaussian, HeteroscedasticGaussian, Ordinal, Probit, Logistic),
    (NormalWishart, Shrinkage),
    Cautious,
    EmpiricalBayes,
)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"likelihood": "poisson"}, "likelihood is 'poisson'; expected one of 'gaussian'"),
        ({"likelihood": 3}, "likelihood is 3"),
        ({"likelihood": Shrinkage()}, "likelihood is Shrinkage"),
        ({"likelihood": "ordinal:levels=1,two"}, "levels is '1,two'; expected numbers"),
        ({"likelihood": "ordinal:1,2"}, "ordinal has '1'; expected key=value, with a key among levels"),
        ({"likelihood": "probit:n_negatives=many"}, "n_negatives is 'many'; expected a whole number"),
        ({"prior": "ard:max_factors=0", "n_factors": "auto"}, "max_factors is 0"),
        ({"prior": Gaussian()}, "prior is Gaussian"),
        ({"prior": Shrinkage("spike")}, "kind is 'spike'"),
    ],
)
def test_senseless_settings_are_refused(parameters, complaint):
    with pytest.raises(InvalidParameterError, match=complaint):
        BPMF(**parameters).check()


@quick
def test_a_name_an_object_and_a_text_are_the_same_model(tmp_path):
    ways = (Ordinal(levels=[1, 2, 3, 4]), "ordinal:levels=1,2,3,4")
    one, two = (BPMF(**SHORT, likelihood=way).fit(stars()) for way in ways)
    assert one.predict([0], [2]).mean[0] == two.predict([0], [2]).mean[0]
    save(one, tmp_path / "model")
    assert json.loads((tmp_path / "model" / "manifest.json").read_text())["parameters"]["likelihood"] == ways[1]
    again = load(tmp_path / "model")
    assert again.likelihood == ways[1]
    assert again.predict([0], [2]).mean[0] == one.predict([0], [2]).mean[0]


# Names of the first edition

OLD = [
    ({"likelihood": "ordinal", "levels": [1, 2, 3]}, {"likelihood": "ordinal:levels=1,2,3"}),
    ({"noise": "per-user-and-item"}, {"likelihood": "heteroscedastic"}),
    ({"noise": "constant", "noise_precision": 2.0}, {"likelihood": "gaussian:precision=2"}),
    ({"noise_shape": 2.0, "noise_rate": 3.0}, {"likelihood": "gaussian:shape=2,rate=3"}),
    (
        {"likelihood": "probit", "negatives": "uniform", "n_negatives": 5},
        {"likelihood": "probit:negatives=uniform,n_negatives=5"},
    ),
    ({"n_factors": "auto", "most_factors": 8}, {"n_factors": "auto", "prior": "ard:max_factors=8"}),
    ({"prior": "cumulative", "most_factors": 8}, {"prior": "cumulative:max_factors=8"}),
]


@pytest.mark.parametrize(("old", "new"), OLD)
@pytest.mark.parametrize("model", [BPMF, SphereBPMF])
def test_old_parameters_are_translated_with_a_warning(model, old, new):
    with pytest.warns(DeprecationWarning, match="has no parameter .* of its own any longer; use "):
        assert model(**old) == model(**new)
    with pytest.warns(DeprecationWarning, match="of its own any longer"):
        assert model().set_params(**old) == model(**new)


def test_an_old_parameter_changes_what_is_there():
    model = BPMF(likelihood=Probit(negatives="uniform", n_negatives=3))
    with pytest.warns(DeprecationWarning, match="of its own any longer"):
        model.set_params(n_negatives=10)
    assert model.likelihood == "probit:negatives=uniform"


def test_a_manifest_of_the_first_edition_is_read_without_a_warning():
    defaults = {name: where.default for name, where in PARAMETERS["BPMF"].items() if hasattr(where, "default")}
    given = {**defaults, "noise": "constant", "likelihood": "ordinal", "levels": [1, 2], "prior": "auto"}
    assert translated(BPMF, given, warns=False) == {"likelihood": "ordinal:levels=1,2", "prior": "auto"}


@quick
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_and_new_settings_of_the_command_line_are_the_same(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating\n0,0,1\n0,1,3\n1,0,2\n1,2,3\n2,1,1\n2,2,2\n")
    short = [f"--set={name}={value}" for name, value in SHORT.items() if name not in ("seed", "threads", "n_factors")]
    for name, settings in (
        ("old", ["likelihood=ordinal", "levels=[1, 2, 3]"]),
        ("new", ["likelihood=ordinal:levels=1,2,3"]),
    ):
        arguments = ["fit", str(tmp_path / "r.csv"), "-o", str(tmp_path / name), "--model", "bpmf", "--seed", "1"]
        told = CliRunner().invoke(app, [*arguments, "--n-factors", "2", *short, *(f"--set={one}" for one in settings)])
        assert told.exit_code == 0, told.output
    old, new = (json.loads((tmp_path / name / "manifest.json").read_text())["parameters"] for name in ("old", "new"))
    assert old == new
    assert new["likelihood"] == "ordinal:levels=1,2,3"


@pytest.mark.parametrize("model", [ALS, PMF, EASE, ImplicitALS, MonotoneMF, SphereALS, LogisticMF, Blend, Joint])
def test_both_spellings_of_regularization_are_accepted(model):
    named = next(name for name in model().get_params() if name.endswith("regularization"))
    other = named.replace("regularization", "regularisation")
    assert model(**{other: 0.25}) == model(**{named: 0.25}) == model().set_params(**{other: 0.25}) != model()
    assert getattr(model(**{named: 0.25}), other) == 0.25
    with pytest.raises(InvalidParameterError, match=f"{named} twice"):
        model(**{named: 0.25, other: 0.5})


def test_what_was_found_has_both_spellings():
    fitted = ALS(n_factors=2, regularisation=0.25, seed=0).fit(stars())
    assert fitted.regularisation_ == fitted.regularization_
