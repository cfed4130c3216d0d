"""The recommender of the logistic factorization of choices."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np
from numpy.random import Generator
from scipy.special import expit

from tastespace import threads
from tastespace.arrays import DoubleArray
from tastespace.data.ratings import Ratings
from tastespace.errors import NonFiniteStateError
from tastespace.inference.drivers import ascend, never
from tastespace.models.choices import OneClass
from tastespace.models.factorization.draws import DrawsPosterior
from tastespace.models.factorization.item_draws import ItemDraws, Populations
from tastespace.models.factorization.kept_noise import Units
from tastespace.models.factorization.one_class.confidence import GROWTHS, Confidence, Growth
from tastespace.models.factorization.one_class.logistic_descent import LogisticDescent, LogisticState
from tastespace.models.factorization.one_class.logistic_kept import KeptLogistic, NegativeWeight
from tastespace.models.factorization.one_class.negatives import LAWS, Law, Unchosen
from tastespace.models.factorization.one_class.panel import Panel
from tastespace.models.parameters import choice, number, whole_number
from tastespace.progress import Observer

MOST_NEGATIVES = 10_000  # a choice; beyond that a cell would be seen many times a step


@dataclass(kw_only=True)
class LogisticMF(OneClass):
    """Clicks, plays and purchases by a logistic likelihood: how likely is an item to be one that was chosen?

    P(chosen) = 1 / (1 + exp(-(offset + user bias + item bias + user . item))), learned by stochastic gradients from
    what was chosen, and from cells drawn to stand for what was not (Johnson 2014).

    `negatives` is how much what was not chosen counts, `n_negatives` times as much as what was, all together.
    "weighted": all such cells alike. "uniform": any item, for a user as often as he chose something. "popularity": the
    same, with items drawn by (number of choices) ** 0.75.

    A prediction is the probability that a pair is a choice and not a negative, if there are `n_negatives` negatives of
    that law for every choice. Where nothing is known of a pair that is 1 / (1 + `n_negatives`). With "popularity", an
    item gets no credit for being known to all.

    A choice counts 1 + `strength` * f(count), f given by `growth`: "log" (1 + count), "linear" or "none". With a
    strength above 0 odds are as many times too high as choices count more than 1.

    `regularisation` holds factors and biases back. `epochs` are passes over both sides, with steps of `learning_rate`.
    """

    n_factors: int = 64
    regularisation: float = 3.0
    negatives: Law = "weighted"
    n_negatives: int = 30
    strength: float = 0.0
    growth: Growth = "log"
    biases: bool = True
    epochs: int = 30
    learning_rate: float = 0.2

    posterior_class = DrawsPosterior

    def check(self) -> None:
        super().check()
        whole_number("n_factors", self.n_factors, least=1)
        number("regularisation", self.regularisation, above=0)
        choice("negatives", self.negatives, list(LAWS))
        whole_number("n_negatives", self.n_negatives, least=1)
        number("n_negatives", self.n_negatives, below=MOST_NEGATIVES + 1)
        number("strength", self.strength, least=0)
        choice("growth", self.growth, list(GROWTHS))
        choice("biases", self.biases, [True, False])
        whole_number("epochs", self.epochs, least=1)
        number("learning_rate", self.learning_rate, above=0)

    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> DrawsPosterior:
        self.require_choices(observed)
        confidence = Confidence(self.strength, self.growth)
        counts = (observed.by_user.counts, observed.by_item.counts)
        unchosen = Unchosen.of(self.negatives, self.n_negatives, *counts)
        transition = LogisticDescent.bind(
            observed,
            confidence,
            unchosen,
            ridge=self.regularisation,
            rate=self.learning_rate,
            n_factors=self.n_factors,
            biases=self.biases,
            threads=threads.resolve(self.threads),
        )
        state, trace = ascend(
            transition,
            transition.init(rng),
            rng,
            steps=self.epochs,
            stop=never,
            phase="epoch",
            observer=observer,
        )
        if not (isfinite(trace[-1]["loss"]) and isfinite(state.users.squared() + state.items.squared())):
            raise NonFiniteStateError(
                f"after {len(trace)} epochs the loss is {trace[-1]['loss']}; expected finite numbers: take a smaller "
                f"learning_rate (now {self.learning_rate:g}) or strength (now {self.strength:g})"
            )
        panel = Panel.of(unchosen.by_item, unchosen.item_popularity, rng)
        losses = np.array([stats["loss"] for stats in trace])
        return self._concluded(state, transition.offset, unchosen, panel, losses)

    def _concluded(
        self, state: LogisticState, offset: float, unchosen: Unchosen, panel: Panel, losses: DoubleArray
    ) -> DrawsPosterior:
        a_user = unchosen.total / len(unchosen.by_user)
        weight = NegativeWeight(0.0, a_user) if self.negatives == "weighted" else NegativeWeight(self.n_negatives, 0.0)
        confidence, items = Confidence(self.strength, self.growth), state.items.points()
        return DrawsPosterior(
            draws=ItemDraws(
                items=items[:, None, :],
                users=Populations.of_rows(state.users.points(), self.biases),
                new_items=Populations.of_rows(items, self.biases),
                alpha=np.ones(1),
                has_biases=self.biases,
                offset=0.0,
                scale=1.0,
                noise=KeptLogistic(offset, confidence, self.regularisation, weight, panel, losses),
            ),
            units=Units(0.0, 1.0, np.array([0.0, 1.0]), float(expit(offset))),
            weighs_by_evidence=False,
            is_half_stored=False,
            trace=None,
        )
