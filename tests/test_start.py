"""Quick starts: what is imported, and when; public names are resolved on first use."""

from __future__ import annotations

import ast
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import tastespace as ts
from tastespace.cli import main
from tastespace.models import MODELS

HEAVY = ("scipy", "polars", "tastespace.models.base", "tastespace.models.factorization", "sklearn", "matplotlib")


def modules_after(code: str) -> set[str]:
    """The modules of a fresh process that has run the code."""
    printed = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nsys.stderr.write(' '.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(printed.stderr.split())


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_asking_for_version_or_help_imports_nothing_heavy(option):
    code = (
        f"sys.argv = ['tastespace', {option!r}]\nfrom tastespace.cli.main import run\n"
        "try:\n    run()\nexcept SystemExit:\n    pass"
    )
    loaded = modules_after(code)
    assert not [name for name in loaded if name.startswith(HEAVY)]
    assert "tastespace.cli.main" in loaded


def test_import_alone_loads_no_model_and_no_scipy():
    loaded = modules_after("import tastespace")
    assert not [name for name in loaded if name.startswith(HEAVY)]


def test_a_quick_model_loads_no_part_of_scipy():
    """`import scipy` alone is quick: it imports its parts when they are first used."""
    loaded = modules_after(
        "import tastespace as ts\n"
        "ratings = ts.Ratings.from_arrays([1, 1, 2, 2], [1, 2, 1, 3], [4.0, 2.0, 3.0, 5.0])\n"
        "ts.ALS(n_factors=2, seed=0).fit(ratings).recommend([1], 2)"
    )
    assert "tastespace.models.factorization.als" in loaded
    assert not [name for name in loaded if name.startswith(("scipy.sparse", "scipy.special", "scipy.linalg"))]


def test_names_for_type_checkers_are_those_that_are_resolved():
    """The table of public names is made from the stub."""
    stub = ast.parse(Path(ts.__file__).with_suffix(".pyi").read_text())
    declared = {alias.asname: node.module for node in stub.body[1:] for alias in node.names}
    assert declared == ts._MODULES
    for name, place in declared.items():
        assert getattr(ts, name) is getattr(import_module(place), name)


def test_public_names_and_models_are_on_the_page_of_public_names():
    page = (Path(__file__).parents[1] / "docs/reference/api.md").read_text()
    assert not [name for name in [*ts.__all__, *MODELS] if f"`{name}`" not in page]


def test_an_unknown_name_is_an_attribute_error():
    for module in (ts, import_module("tastespace.models"), main):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            module.nothing  # noqa: B018
    assert set(ts.__all__) <= set(dir(ts))


@pytest.mark.parametrize("old", ts._RENAMED)
def test_names_of_the_first_edition_still_work(old):
    with pytest.warns(DeprecationWarning, match=f"tastespace.{old} is now tastespace.{ts._RENAMED[old]}"):
        assert getattr(ts, old) is getattr(ts, ts._RENAMED[old])


def test_listing_models_imports_none_and_names_are_found_again():
    assert "tastespace.models.factorization" not in modules_after("from tastespace.models import MODELS; list(MODELS)")
    for name, model in MODELS.items():
        assert MODELS.name_of(model) == name
    assert MODELS.name_of(ts.Recommender) is None


@pytest.mark.parametrize("verb", main.VERBS)
def test_the_sentence_of_a_verb_is_the_first_of_its_help(verb):
    sentence = main.VERBS[verb]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        function = main.function_of(verb)
    first = " ".join(function.__doc__.strip().split("\n\n")[0].split())
    assert first == sentence


def test_settings_of_models_are_found_beside_them():
    from tastespace.models import EmpiricalBayes

    assert EmpiricalBayes is ts.EmpiricalBayes
