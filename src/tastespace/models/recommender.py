"""The estimator a person holds: fields are its parameters, learned names end in an underscore."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.random import Generator

from tastespace import randomness, threads
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Ids, id_series, listed
from tastespace.errors import InvalidParameterError, NotFittedError
from tastespace.index.exact import Exact
from tastespace.index.index import Index
from tastespace.instructions import instruction_set
from tastespace.models.asking import Asked, History, asked_users
from tastespace.models.parameters import whole_number
from tastespace.models.posterior import InnerProduct, Posterior, Prediction
from tastespace.models.searching import best_items
from tastespace.progress import Observer, silent
from tastespace.ranking import Ranking, allowed_items, excluded_items


@dataclass(kw_only=True)
class Recommender(ABC):
    """Base of all models. A subclass writes `infer` and names its posterior's class; the rest is shared.

    `seed=None` takes a fresh seed, kept as `seed_`; the same seed gives the same bytes whatever the number of
    `threads` (None: all cores).
    """

    seed: int | None = None
    threads: int | None = None

    posterior_class: ClassVar[type[Any]]

    @abstractmethod
    def infer(self, observed: Ratings, rng: Generator, observer: Observer) -> Posterior[Any]:
        """Conclude from the ratings: all that a subclass writes."""

    def check(self) -> None:
        """Refuse parameters that make no sense; a subclass adds its own."""
        instruction_set()  # Says now, not in the first kernel, if TASTESPACE_ISA asks for the impossible.
        randomness.resolve(self.seed)
        threads.resolve(self.threads)

    def fit(self, observed: Ratings, *, observer: Observer = silent) -> Self:
        """Learn from ratings. Fitting again starts afresh."""
        if not isinstance(observed, Ratings):
            raise InvalidParameterError(
                f"fit got {type(observed).__name__}; expected Ratings: use tastespace.read or Ratings.from_frame"
            )
        self.check()
        seed = randomness.resolve(self.seed)
        posterior = self.infer(observed, randomness.generator(seed), observer)
        return self.restore(observed, posterior, seed, observed.range)

    def restore(
        self, observed: Ratings, posterior: Posterior[Any], seed: int, rating_range: tuple[float, float]
    ) -> Self:
        """Take a conclusion as one's own: what `fit` and the artifact end with."""
        instruction_set()
        self.ratings_ = observed  # the ids at least; an artifact may have been saved without the ratings
        self.posterior_ = posterior
        self.seed_ = seed
        self.rating_range_ = rating_range
        self._exact: Exact | None = None
        return self

    @property
    def is_fitted(self) -> bool:
        return "posterior_" in self.__dict__

    def predict(self, user_ids: Ids, item_ids: Ids, *, history: History | None = None) -> Prediction:
        """Predicted ratings of pairs, within the range of the training ratings.

        Unknown users and items get the prior's answer and are flagged cold. `history` are ratings that the
        model has not seen, of users old or new (see `recommend`).
        """
        self.require_fitted()
        users, items = id_series(listed(user_ids), "user"), id_series(listed(item_ids), "item")
        if len(users) != len(items):
            raise InvalidParameterError(f"{len(users)} users and {len(items)} items; expected as many of each")
        asked = asked_users(self.ratings_, users, history, self.rating_range_)
        positions, item_rows = asked.users.rows_of(users), self.ratings_.items.rows_of(items)
        belief = self._belief(asked)
        mean = self.posterior_.predict(belief, positions, item_rows, threads.resolve(self.threads))
        low, high = self.rating_range_
        return Prediction(
            user_ids=users,
            item_ids=items,
            titles=None if self.ratings_.item_titles is None else self.ratings_.title_of(item_rows),
            mean=np.clip(mean, low, high),
            cold=asked.cold[positions] | (item_rows < 0),
        )

    def recommend(
        self,
        user_ids: Ids | None = None,
        n: int = 10,
        *,
        history: History | None = None,
        exclude: Ids | None = "seen",
        only: Ids | None = None,
        index: Index | None = None,
    ) -> Ranking:
        """The best items of each user.

        `history` are ratings that the model has not seen: `Ratings` of any users, or ``{item: rating}`` of
        one. They count at once, beside the training ratings of a user who has any (the newer rating wins).
        Without `user_ids` the users of the history are meant.

        `exclude="seen"` leaves out what a user has rated, None nothing, a list of items these and the seen
        ones. `only` is a list of items to choose from; an unknown item in it is an error. `index` is a built
        index over the posterior's item vectors; without one every item is looked at.
        """
        self.require_fitted()
        whole_number("n", n, least=1)
        if user_ids is None:
            if history is None:
                raise InvalidParameterError("recommend got neither users nor a history; expected at least one")
            user_ids = history.users.ids if isinstance(history, Ratings) else [self._stranger()]
        users = id_series(listed(user_ids), "user")
        asked = asked_users(self.ratings_, users, history, self.rating_range_)
        belief = self._belief(asked)
        found = best_items(
            self.posterior_,
            belief,
            len(asked.users),
            min(n, max(self.ratings_.n_items, 1)),
            n_items=self.ratings_.n_items,
            excluded=excluded_items(self.ratings_, asked.seen, exclude),
            allowed=allowed_items(self.ratings_, only),
            index=self._exact_index() if index is None else index,
            threads=threads.resolve(self.threads),
        )
        positions = asked.users.rows_of(users)
        item_rows = found.items[positions]
        return Ranking(
            user_ids=users,
            cold=asked.cold[positions],
            item_rows=item_rows,
            scores=found.scores[positions],
            item_ids=self.ratings_.items.at(item_rows.reshape(-1)),
            titles=None if self.ratings_.item_titles is None else self.ratings_.title_of(item_rows.reshape(-1)),
        )

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as scikit-learn asks for them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **params: Any) -> Self:
        """Change parameters; takes effect at the next fit."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise InvalidParameterError(
                    f"{type(self).__name__} has no parameter {name!r}; expected one of {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def require_fitted(self) -> None:
        """Refuse to answer before `fit`."""
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(ratings) first")

    def _belief(self, asked: Asked) -> Any:
        """As training left it, or folded in where there is news."""
        known = self.posterior_.known(asked.rows)
        if not asked.has_history.any():
            return known
        folded = self.posterior_.fold_in(asked.seen, threads.resolve(self.threads))
        return self.posterior_.choose(asked.has_history, folded, known)

    def _stranger(self) -> str:
        """A name for somebody whom the training ratings do not know."""
        name = "you"
        while self.ratings_.users.rows_of([name])[0] >= 0:
            name += "'"
        return name

    def _exact_index(self) -> Index | None:
        if not isinstance(self.posterior_, InnerProduct):
            return None
        if self._exact is None:
            self._exact = Exact().build(self.posterior_.item_vectors())
        self._exact.threads = self.threads
        return self._exact
