"""Diagnostics find what is wrong with chains, leave what is right alone, and say what is missing.

The chains are made up, so that the right answer is known: independent draws, autoregressive ones (whose effective
number is N (1 - r)/(1 + r)), chains stuck in different places, chains that travel.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from arviz_stats.base.array import array_stats

from tastespace.errors import InvalidParameterError
from tastespace.inference.diagnosis import (
    CONSTANT,
    FEW,
    FINE,
    MAX_ERROR,
    MAX_RHAT,
    MEDIAN,
    NOT_CONVERGED,
    NOT_FINITE,
    TOO_FEW,
    WORST,
)
from tastespace.inference.diagnostics import check_convergence, diagnose, monte_carlo_errors, rhat
from tastespace.inference.transition import HELD_OUT, NOISE, Trace
from tastespace.randomness import generator

PAIRS = 100


def autoregressive(rng, shape, correlation):
    """Mean 0, variance 1; time is axis 1."""
    noise = rng.standard_normal(shape)
    series = np.empty(shape)
    series[:, 0] = noise[:, 0]
    for step in range(1, shape[1]):
        series[:, step] = correlation * series[:, step - 1] + np.sqrt(1 - correlation**2) * noise[:, step]
    return series


def made_up(rng, *, chains=2, draws=50, warmup=5, thin=1, belief=1.0, correlation=0.0, pairs=PAIRS):
    """A trace with a noise sd of about 1 and predictions that scatter by `belief`; warm-up is far away."""
    sweeps = warmup + draws * thin
    predictions = 3 + belief * autoregressive(rng, (chains, sweeps, pairs), correlation)
    quantities = {
        NOISE: 1 + 0.005 * autoregressive(rng, (chains, sweeps), correlation),
        "log joint": -5e5 + 100 * autoregressive(rng, (chains, sweeps), correlation),
    }
    for values in (predictions, *quantities.values()):
        values[:, :warmup] += 1000
    return Trace(warmup, thin, quantities, predictions.astype(np.float32))


def changed(trace, *, predictions=None, **quantities):
    """With other values; names have underscores for blanks."""
    named = {name.replace("_", " "): values for name, values in quantities.items()}
    shown = trace.predictions if predictions is None else predictions.astype(np.float32)
    return Trace(trace.warmup, trace.thin, {**trace.quantities, **named}, shown)


@pytest.mark.statistical
@pytest.mark.parametrize("correlation", [0.0, 0.6])
def test_effective_draws_and_errors_of_autoregressive_chains(correlation):
    """The mean over 40 series has errors of about 1 %; 10 % is far beyond chance, and a twin is far beyond 10 %."""
    trace = made_up(generator(1), chains=4, draws=1000, correlation=correlation, pairs=40)
    right = 4000 * (1 - correlation) / (1 + correlation)
    one_by_one = {f"pair {pair}": trace.predictions[:, :, pair].astype(float) for pair in range(40)}
    rows = [row for row in diagnose(changed(trace, **one_by_one)) if row.quantity in one_by_one]
    assert np.mean([row.ess_bulk for row in rows]) == pytest.approx(right, rel=0.1)
    assert np.mean([row.mcse for row in rows]) == pytest.approx(1 / np.sqrt(right), rel=0.05)
    assert diagnose(trace)[MEDIAN].ess_bulk == pytest.approx(right, rel=0.1)
    assert {row.verdict for row in rows} == {FINE}
    if correlation:  # who counts draws instead
        assert right != pytest.approx(4000, rel=0.1)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("chains", "draws", "belief", "correlation"),
    [(2, 50, 0.75, 0.3), (2, 10, 0.4, 0.0), (1, 50, 0.75, 0.0)],
)
def test_good_chains_bring_no_warning(chains, draws, belief, correlation):
    """Six traces each. A false alarm needs a quarter of 100 pairs above the limit of R-hat, whose chance is at most
    0.09 for a pair, or an error a quarter above what is expected on average over them: less than once in a million."""
    rng = generator(2)
    for _ in range(6):
        trace = made_up(rng, chains=chains, draws=draws, belief=belief, correlation=correlation)
        assert check_convergence(trace) is None


@pytest.mark.statistical
def test_an_rhat_above_the_limit_is_as_rare_as_the_constants_say():
    """Of independent draws in two chains: one pair in eleven at 10 draws, one in three hundred at 25."""
    for draws, low, high in ((10, 0.07, 0.11), (25, 0.001, 0.006)):
        trace = made_up(generator(3), draws=draws, pairs=5000)
        series = np.moveaxis(trace.predictions[:, 5:].astype(float), 2, 0)
        assert low < np.mean(rhat(series) > MAX_RHAT) < high


def test_chains_stuck_in_different_places(rng):
    trace = made_up(rng)
    apart = np.array([[[-2.0]], [[2.0]]])
    stuck = changed(trace, predictions=trace.predictions + apart)
    diagnosis = diagnose(stuck)
    assert diagnosis.pairs.above_rhat == 1
    assert diagnosis[MEDIAN].verdict == diagnosis[WORST].verdict == NOT_CONVERGED
    assert diagnosis[MEDIAN].ess_bulk < 10
    assert diagnosis.trouble == (
        "predictions have not converged: the 2 chains disagree, each of them stable in a different region: 100% of the "
        "watched pairs have R-hat above 1.2 (at most 25% expected); let chains warm up longer: set warmup=50 (now 5)"
    )
    # A twin that looks at each chain alone sees nothing wrong.
    alone = array_stats.ess(np.moveaxis(stuck.predictions[:1, 5:].astype(float), 2, 0), method="bulk")
    assert np.median(alone) > 30


def test_chains_that_travel_together(rng):
    trace = made_up(rng, warmup=40)
    travel = np.linspace(0, 6, trace.sweeps)[:, None]
    travelling = changed(trace, predictions=trace.predictions + travel)
    diagnosis = diagnose(travelling)
    assert diagnosis.pairs.above_rhat > 0.9
    assert diagnosis.trouble.startswith("predictions have not converged: 92% of the watched pairs")
    assert diagnosis.trouble.endswith("double the warm-up: set warmup=80 (now 40)")
    # A twin that does not cut chains into halves sees two that agree.
    whole = array_stats.rhat(np.moveaxis(travelling.predictions[:, 40:].astype(float), 2, 0), method="identity")
    assert np.median(whole) < 1.1


def test_one_chain_is_enough_to_see_it_travel(rng):
    trace = made_up(rng, chains=1, belief=0.7)
    assert check_convergence(trace) is None
    assert diagnose(trace)[NOISE].rhat == pytest.approx(1, abs=0.2)
    travelling = changed(trace, predictions=trace.predictions + np.linspace(0, 6, trace.sweeps)[:, None])
    assert "have not converged" in check_convergence(travelling)


def test_few_pairs_in_trouble(rng):
    """Shown in any case; with a warning if they disagree by much."""
    trace = made_up(rng, belief=0.5)
    predictions = trace.predictions.copy()
    predictions[1, :, :5] += 1.2
    diagnosis = diagnose(changed(trace, predictions=predictions))
    assert diagnosis.pairs.above_rhat == pytest.approx(0.05, abs=0.015)
    assert diagnosis.pairs.worst < 5
    assert diagnosis[WORST].verdict == NOT_CONVERGED
    assert diagnosis[MEDIAN].verdict == FINE
    assert diagnosis.trouble is None
    predictions[1, :, :5] += 4
    message = check_convergence(changed(trace, predictions=predictions))
    assert message.startswith(
        "predictions have not converged: the 2 chains disagree, each of them stable in a different region: 5% of the "
        "watched pairs have R-hat above 1.2, and make the"
    )
    assert message.endswith("set warmup=50 (now 5)")


def test_draws_still_needed_are_enough():
    """With a belief of 1.5 times the noise, the error of 50 independent draws is 0.21, and 100 are needed for 0.15."""
    message = check_convergence(made_up(generator(4), draws=25, belief=1.5))
    found = re.fullmatch(
        r"predictions are not exact enough: their Monte Carlo error is (0\.\d+) times the noise sd \(at most 0\.15 "
        r"expected\); about (\d+) more draws per chain are needed: set draws=(\d+) \(now 25\)",
        message,
    )
    assert float(found[1]) == pytest.approx(1.5 / np.sqrt(50), rel=0.15)
    more, wanted = int(found[2]), int(found[3])
    assert wanted == 25 + more
    assert wanted == pytest.approx(50, rel=0.3)
    again = diagnose(made_up(generator(5), draws=wanted, belief=1.5))
    assert again.pairs.relative_error == pytest.approx(MAX_ERROR, rel=0.15)
    assert check_convergence(made_up(generator(5), draws=2 * wanted, belief=1.5)) is None


def test_slow_predictions_need_more_draws_than_fast_ones():
    fast, slow = (
        diagnose(made_up(generator(6), draws=100, correlation=correlation)).pairs.error for correlation in (0.0, 0.7)
    )
    assert slow == pytest.approx(fast * np.sqrt(1.7 / 0.3), rel=0.2)


def test_noise_that_travels_brings_a_warning(rng):
    trace = made_up(rng, warmup=30)
    travel = np.linspace(1.3, 1.0, trace.sweeps)
    message = check_convergence(changed(trace, noise_sd=trace.quantities[NOISE] * travel))
    assert message.startswith("noise sd has not converged: its R-hat is ")
    assert message.endswith(
        "between halves of chains (at most 5% expected); double the warm-up: set warmup=60 (now 30)"
    )
    # Chains that disagree by a hair do not.
    diagnosis = diagnose(changed(trace, noise_sd=trace.quantities[NOISE] * np.linspace(1.04, 1.0, trace.sweeps)))
    assert diagnosis[NOISE].verdict == NOT_CONVERGED
    assert diagnosis.trouble is None


def test_what_is_no_prediction_brings_no_warning(rng):
    trace = made_up(rng)
    stuck = trace.quantities["log joint"] + np.array([[0.0], [1e4]])
    diagnosis = diagnose(changed(trace, log_joint=stuck))
    assert diagnosis["log joint"].verdict == NOT_CONVERGED
    assert diagnosis.trouble is None
    assert diagnosis.meaning().endswith("\nGood enough for predictions.")
    # Predictions and the other quantities are judged apart, so that no verdict contradicts another one.
    of_predictions, of_others = str(diagnosis).split("\n\nWhat hyper-parameters do\n")
    assert "drifting" not in of_predictions
    assert "not converged" not in str(diagnosis)
    assert "at most 25 %      yes" in of_predictions
    assert next(line for line in of_others.splitlines() if line.startswith("log joint")).endswith("drifting")
    assert "drifting, rough: do not read much" in of_others
    assert "drifting" not in str(diagnose(trace))
    assert "<p>2 chains" in diagnosis._repr_html_()


def test_predictions_that_hardly_scatter_bring_no_warning(rng):
    trace = made_up(rng, belief=0.01)
    stuck = changed(trace, predictions=trace.predictions + np.array([[[-0.05]], [[0.05]]]))
    diagnosis = diagnose(stuck)
    assert diagnosis.pairs.above_rhat == 1
    assert diagnosis.trouble is None


def test_a_constant_is_called_one(rng):
    trace = made_up(rng)
    fixed = changed(trace, noise_sd=np.full((2, trace.sweeps), 0.7))
    row = diagnose(fixed)[NOISE]
    assert (row.mean, row.sd, row.mcse, row.verdict) == (pytest.approx(0.7), 0, 0, CONSTANT)
    assert row.rhat is row.ess_bulk is row.ess_tail is None
    assert diagnose(fixed).yardstick == pytest.approx(0.7)
    still = diagnose(changed(fixed, predictions=np.full_like(trace.predictions, 3)))
    assert still[MEDIAN].verdict == still[WORST].verdict == CONSTANT
    assert still.trouble is None


@pytest.mark.parametrize("chains", [1, 2])
@pytest.mark.parametrize("draws", [0, 1, 2, 3, 4, 9])
def test_too_few_draws_say_so(chains, draws, rng):
    diagnosis = diagnose(made_up(rng, chains=chains, draws=draws))
    assert {row.verdict for row in diagnosis} == {TOO_FEW}
    assert all(row.ess_bulk is row.ess_tail is row.mcse is None for row in diagnosis)
    assert all((row.rhat is None) == (draws < 4) for row in diagnosis)
    wanted = 20 if chains == 1 else 10
    assert f"at least {wanted - draws} more per chain are needed; set draws={wanted} or more (now {draws})" in (
        diagnosis.trouble
    )
    assert "too few draws to judge them by" in diagnosis.meaning()
    assert str(diagnosis)


def test_fewer_than_ten_draws_would_look_excellent_whatever_they_are():
    """Why there is a least number: the estimate has no lags to see by, even for chains stuck in different places."""
    stuck = generator(7).standard_normal((2, 9)) + np.array([[0], [50]])
    assert array_stats.ess(stuck, method="bulk") > 18
    assert array_stats.ess(np.c_[stuck, stuck[:, :1]], method="bulk") < 10


def test_only_kept_draws_count(rng):
    """Neither warm-up nor what thinning leaves out."""
    trace = made_up(rng, warmup=7, thin=3, draws=30)
    elsewhere = np.ones(trace.sweeps, bool)
    elsewhere[7 + 2 :: 3] = False
    predictions, noise = trace.predictions.copy(), trace.quantities[NOISE].copy()
    predictions[:, elsewhere] = 99
    noise[:, elsewhere] = 99
    other = changed(trace, predictions=predictions, noise_sd=noise)
    assert diagnose(trace).draws == 30
    assert diagnose(trace) == diagnose(other)
    predictions[:, 7 + 2] += 99
    assert diagnose(trace) != diagnose(changed(trace, predictions=predictions))


def test_a_running_average_is_no_series_of_draws(rng):
    trace = made_up(rng)
    running = np.linspace(1.0, 0.9, trace.sweeps) + np.array([[0.0], [0.01]])
    diagnosis = diagnose(changed(trace, **{HELD_OUT: running}))
    assert [row.quantity for row in diagnosis] == [NOISE, "log joint", MEDIAN, WORST]
    assert diagnosis.held_out_rmse == pytest.approx(0.905)
    assert "Held-out RMSE of what one chain predicts on average: 0.9050." in diagnosis.meaning()


def test_the_order_of_rows_survives_saving(rng):
    trace = changed(made_up(rng), taste_sd=rng.standard_normal((2, 55)), item_bias_sd=rng.standard_normal((2, 55)))
    backward = Trace(trace.warmup, trace.thin, dict(reversed(trace.quantities.items())), trace.predictions)
    names = [NOISE, "log joint", "item bias sd", "taste sd", MEDIAN, WORST]
    assert [row.quantity for row in diagnose(trace)] == [row.quantity for row in diagnose(backward)] == names


def test_no_watched_pairs(rng):
    diagnosis = diagnose(made_up(rng, pairs=0))
    assert [row.quantity for row in diagnosis] == [NOISE, "log joint"]
    assert diagnosis.pairs is None
    assert diagnosis.trouble is None
    assert diagnosis.meaning() == "Good enough for predictions."


def test_without_noise_errors_are_measured_by_the_spread_of_predictions(rng):
    trace = made_up(rng, belief=0.5)
    means = 2 * rng.standard_normal(PAIRS)
    diagnosis = diagnose(Trace(trace.warmup, 1, {}, (trace.predictions + means).astype(np.float32)))
    assert diagnosis.yardstick == pytest.approx(np.hypot(2, 0.5), rel=0.2)
    assert "times the spread of the predictions" in diagnosis.meaning()


def test_what_is_not_finite_is_named(rng):
    trace = made_up(rng)
    noise, predictions = trace.quantities[NOISE].copy(), trace.predictions.copy()
    noise[0, 20], predictions[1, 30, 4] = np.nan, np.inf
    diagnosis = diagnose(changed(trace, noise_sd=noise, predictions=predictions))
    assert diagnosis[NOISE].verdict == diagnosis[WORST].verdict == NOT_FINITE
    assert diagnosis["log joint"].verdict == FINE
    assert diagnosis.trouble.startswith("noise sd, predictions, median, predictions, worst: not finite")
    json.dumps(diagnosis.to_dict(), allow_nan=False)


def test_tables_and_dictionaries(rng):
    diagnosis = diagnose(made_up(rng, thin=2, correlation=0.8))
    frame = diagnosis.to_polars()
    assert frame.columns == ["quantity", "mean", "sd", "rhat", "ess_bulk", "ess_tail", "mcse", "verdict"]
    assert frame["quantity"].to_list() == [row.quantity for row in diagnosis]
    assert frame["ess_bulk"].to_list() == [row.ess_bulk for row in diagnosis]
    content = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert content["schedule"] == {"chains": 2, "warmup": 5, "draws": 50, "thin": 2}
    assert content["quantities"][NOISE]["rhat"] == diagnosis[NOISE].rhat
    assert content["predictions"]["n"] == PAIRS
    assert content["warning"] == diagnosis.trouble
    lines = str(diagnosis.table()).splitlines()
    assert lines[1].split("  ")[0] == "quantity"
    for row, line in zip(list(diagnosis)[:-2], lines[2:], strict=False):
        assert line.startswith(row.quantity)
        assert line.endswith({FEW: "rough", NOT_CONVERGED: "drifting"}.get(row.verdict, row.verdict))
        assert f"{row.rhat:.2f}" in line
    assert str(diagnosis).startswith("2 chains: 5 sweeps of warm-up, then 50 kept draws each, one every 2 sweeps\n")
    with pytest.raises(InvalidParameterError, match="'factors' was not watched; expected one of noise sd, log joint"):
        diagnosis["factors"]


def test_few_effective_draws_are_called_few():
    trace = made_up(generator(8), draws=100, chains=4, correlation=0.9)
    assert diagnose(trace)[MEDIAN].verdict in (FEW, NOT_CONVERGED)
    assert diagnose(trace)[MEDIAN].ess_bulk < 30


def test_an_infinite_rhat_is_null_in_json(rng):
    trace = made_up(rng)
    still = np.repeat([[0.9], [1.1]], trace.sweeps, axis=1)
    diagnosis = diagnose(changed(trace, noise_sd=still))
    assert diagnosis[NOISE].rhat == np.inf
    assert diagnosis[NOISE].verdict == NOT_CONVERGED
    assert diagnosis.to_dict()["quantities"][NOISE]["rhat"] is None
    assert "its R-hat is inf" in diagnosis.trouble


def test_something_else_than_a_trace():
    with pytest.raises(InvalidParameterError, match="diagnose got dict; expected a fitted model"):
        diagnose({})


def test_without_a_warm_up_one_is_asked_for(rng):
    trace = made_up(rng, warmup=0)
    travelling = changed(trace, predictions=trace.predictions + np.linspace(0, 6, trace.sweeps)[:, None])
    assert check_convergence(travelling).endswith("; let chains warm up: set warmup=50 (now 0)")


def test_the_errors_that_a_rule_asks_for_are_those_of_the_diagnosis():
    for trace in (
        made_up(generator(9), draws=60, correlation=0.5),
        replace(made_up(generator(9)), quantities={}),  # no noise: against the spread of predictions
        changed(made_up(generator(9)), predictions=np.ones((2, 55, 4))),
    ):
        pairs, errors = diagnose(trace).pairs, monte_carlo_errors(trace)
        if pairs.relative_error is None:  # Constant predictions without any spread.
            assert errors is None
        else:
            assert np.sqrt(np.mean(errors**2)) == pytest.approx(pairs.relative_error, rel=1e-9)
            assert np.quantile(errors, 0.9) == pytest.approx(pairs.error_of_most, rel=1e-9)
    assert monte_carlo_errors(made_up(generator(9), draws=9)) is None
    wrong = made_up(generator(9)).predictions.copy()
    wrong[0, 20, 3] = np.nan
    assert monte_carlo_errors(changed(made_up(generator(9)), predictions=wrong)) is None


def test_a_wanted_error_that_was_not_reached_brings_a_warning():
    """Independent draws with a belief as wide as the noise: the error of 100 is 0.1."""
    trace = replace(made_up(generator(10)), wanted_error=0.05)
    found = re.fullmatch(
        r"predictions are not exact enough: "
        r"the maximum number of draws was taken, and the Monte Carlo error of nine in ten is "
        r"(0\.1\d\d) times the noise sd \(at most 0\.05 expected\); about \d+ more draws per chain are needed: "
        r"set draws=(\d+) \(now 50\)",
        check_convergence(trace),
    )
    assert int(found[2]) == pytest.approx(50 * (float(found[1]) / 0.05) ** 2, rel=0.02)
    reached = diagnose(replace(trace, wanted_error=0.15))
    assert reached.trouble is None
    assert "Draws were taken until nine of ten had an error of at most 0.15 times the noise sd: it is 0.1" in (
        reached.meaning()
    )
    assert reached.to_dict()["wanted_error"] == 0.15
    assert "until" not in diagnose(made_up(generator(10))).meaning()
