"""The estimator that users of the library hold: fields are parameters, learned names end in an underscore."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial, wraps
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
import polars as pl
from numpy.random import Generator

from tastespace import randomness, threads
from tastespace.arrays import BoolArray, FloatMatrix, IntArray, contiguous
from tastespace.data.filters import Condition
from tastespace.data.formats.files import ratings_of
from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.newcomers import new_items
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Ids, id_series, items_named, listed
from tastespace.errors import InvalidParameterError, NotFittedError, warn
from tastespace.index.index import Index, with_threads
from tastespace.index.reduction import Shortened
from tastespace.index.structures.exact import Exact
from tastespace.index.trials import StoredIndex
from tastespace.inference.checkpoints import Checkpoints
from tastespace.models.base import batch, resuming
from tastespace.models.base import query as queries
from tastespace.models.base import update as updates
from tastespace.models.base.active_learning import AMONG, Goal, QuestionOptions, Questions, QuestionSearch
from tastespace.models.base.attribution import Explanation, explain
from tastespace.models.base.policies import Best, Policy, policy_of, top_n_probabilities, uncertainty_of
from tastespace.models.base.posterior import Pairs, Posterior, score_blocks
from tastespace.models.base.results import Prediction, Ranking, Table, Vectors
from tastespace.models.base.rules import Rule, Rules
from tastespace.models.base.similarity import Similar, SimilarKind, similar_items, similar_users
from tastespace.models.base.top_n import ListOptions, Prepared, TopN, grown_index, threaded
from tastespace.parameters import SearchSpace, check_declared, check_int
from tastespace.progress import Observer, shown, silent
from tastespace.settings import parameter_names, renamed, translated
from tastespace.tables import TextTable

Answer = TypeVar("Answer", bound=Table)
Method = TypeVar("Method", bound=Callable[..., Any])


def _suggests(method: Method) -> Method:
    """Let a method say which parameter was meant; like `settings.suggests`, but here, where every request passes."""
    names = parameter_names(method)

    @wraps(method)
    def call(self: Recommender, *args: Any, **given: Any) -> Any:
        return method(self, *args, **(given if given.keys() <= names.keys() else renamed(method, names, given)))

    return cast(Method, call)


@dataclass(kw_only=True)
class Recommender(ABC):
    """Base of all models. A subclass writes `infer` and names its posterior's class; the rest is shared.

    `seed=None` takes a fresh seed, kept as `seed_`; the same seed gives the same bytes whatever the number of
    `threads` (None: all cores).
    """

    seed: int | None = None
    threads: int | None = None

    posterior_class: ClassVar[type[Any]]
    search_space: ClassVar[SearchSpace] = {}  # the parameters that `tune` searches
    scores_are_ratings: ClassVar[bool] = True  # scores of lists are expected ratings, or probabilities of a choice
    is_its_ratings: ClassVar[bool] = False  # the posterior holds the training ratings, and is nothing without them
    begins_from_others: ClassVar[bool] = False  # `infer` takes `given`, the items of another model (a `Start`)
    keeps_checkpoints: ClassVar[bool] = False  # `infer` takes `checkpoints`
    learns_features: ClassVar[bool] = False  # what is known of items or users beside ratings counts for the model
    needs_features: ClassVar[bool] = False  # and it knows nothing of items without features
    extra: ClassVar[str | None] = None  # what has to be installed to fit the model
    # Abilities of some models; None for the others.
    kept_up: ClassVar[Callable[..., Posterior] | None] = None  # the same draws, for all current ratings
    restarted: ClassVar[Callable[..., Posterior] | None] = None  # chains that continue from the end of the old ones
    # Items that nobody has rated, placed by their features without a fit; it returns None if the model has none.
    placed: ClassVar[Callable[..., Posterior | None] | None] = None
    warns = True  # remarks of answers become Python warnings, for interactive use

    @abstractmethod
    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> Posterior:
        """Infer the posterior from the ratings: all that a subclass writes. `held_out` may be watched, not used."""

    def check(self) -> None:
        """Refuse invalid parameters; a subclass adds its own."""
        threads.instruction_set()  # Fails now, not in the first kernel, if TASTESPACE_ISA is not supported.
        randomness.resolve(self.seed)
        threads.resolve(self.threads)
        check_declared(self)

    def suits(self, kind: Kind) -> bool:
        """Whether this model suits ratings of this kind; by default all but implicit feedback."""
        return kind not in CHOICES

    @classmethod
    def settings_for(cls, kind: Kind) -> dict[str, Any]:
        """The parameters that ratings of this kind need, where they differ from the defaults."""
        return {}

    @classmethod
    def candidates(cls, observed: Ratings) -> Sequence[Mapping[str, Any]]:
        """The settings with which `choose` may try this model on such ratings, the usual ones first; often none."""
        return ()

    @_suggests
    def fit(
        self,
        observed: Any,
        *,
        held_out: Any = None,
        observer: Observer = silent,
        checkpoints: Checkpoints | None = None,
        start: Recommender | None = None,
    ) -> Self:
        """Learn from ratings. Fitting again starts from scratch.

        `observed` are `Ratings`, or anything that `tastespace.read` makes ratings of: a frame of polars or pandas with
        the columns user, item and rating, a sparse matrix of users and items, a file, or the name of a data set.

        `held_out` are ratings to watch: a model with many sweeps reports its error on them to the observer.
        They have no effect on what is learned.

        With `checkpoints` a model that samples keeps its state in a folder, and continues from there after a crash (see
        `tastespace.inference.checkpoints`); other models refuse them.

        `start` is a fitted model with factors: a factor model starts from the items that it knows, and the users
        are placed by them (see `tastespace.models.base.resuming`).
        """
        observed = observed if isinstance(observed, Ratings) else ratings_of(observed, "fit")
        if held_out is not None:
            held_out = ratings_of(held_out, "held_out")
        if "IPython" in sys.modules:  # perhaps a notebook
            observer = shown(observer)
        self.check()
        if start is not None and checkpoints is not None:
            raise InvalidParameterError("fit got a start and checkpoints; expected one of them, or neither")
        infer = cast(Callable[..., Posterior], self.infer)
        if checkpoints is None:
            seed, others = randomness.resolve(self.seed), {}
            if start is not None:
                others["given"] = resuming.start_of(start, observed)
                resuming.check_startable(self)
            posterior = infer(observed, randomness.generator(seed), observer, held_out, **others)
        else:
            resuming.check_resumable(self, checkpoints)
            # Without a seed, a continued run has the seed of the interrupted one.
            began_with = checkpoints.seed() if self.seed is None and checkpoints.resume else None
            seed = randomness.resolve(self.seed) if began_with is None else began_with
            run = resuming.run_of(type(self).__name__, self.get_params(), seed, observed, held_out)
            with checkpoints.begin(run) as begun:
                posterior = infer(observed, randomness.generator(seed), observer, held_out, checkpoints=begun)
        # Declared levels may reach further than those in use.
        return self.restore(observed, posterior, seed, posterior.rating_range or observed.range)

    def restore(
        self,
        observed: Ratings,
        posterior: Posterior,
        seed: int,
        rating_range: tuple[float, float],
        seen: updates.TrainingSummary | None = None,
    ) -> Self:
        """Adopt a posterior: the last step of `fit` and of loading an artifact.

        `seen` is the summary of what it was learned from, None for all these ratings.
        """
        threads.instruction_set()
        self.ratings_ = observed  # the ids at least; an artifact may have been saved without the ratings
        self.posterior_ = posterior
        self.seed_ = seed
        self.rating_range_ = rating_range
        self.seen_ = seen or updates.TrainingSummary(len(observed), observed.n_users, observed.n_rated_items)
        self.news_: updates.UpdateSummary | None = None  # the effect of an update
        self.index_: StoredIndex | None = None  # the index chosen for these items
        self.choice_: Mapping[str, Any] | None = None  # why this model was chosen automatically; None if it was not
        self._prepared, self._expected = Prepared(posterior, observed), self._expected_of(observed)
        return self

    @_suggests
    def update(self, new_ratings: Any, *, sweeps: updates.Sweeps = "auto", observer: Observer = silent) -> Self:
        """Return a new recommender that has also seen these ratings; this one is unchanged.

        `new_ratings` are `Ratings`, or a table with the columns user, item and rating, on the scale of those that the
        model was fitted on; implicit feedback needs no rating. Known and new users and items may be among them; the
        last rating of a pair counts, and counts are added to the previous ones. Items that nobody has rated yet are
        added by `with_items`.

        A model that samples (`BPMF`) keeps its draws: the ratings of users count at once, and new items get draws of
        their own. Old items do not change until chains continue from where they ended, with all ratings: `sweeps` is
        the number of sweeps before draws are kept again, 0 for no such restart. "auto" restarts when more than 5 % have
        been added since the last time. Any other model is fitted again on all ratings, with the same seed.

        `seen_` says what the model has learned from, and what was added since; `news_` what this update did. An index
        is kept, with the new items beside it, as long as the old items do not change; else `index_` is None: choose one
        again.
        """
        self.require_fitted()
        updates.check_sweeps(sweeps)
        if not len(self.ratings_):
            raise InvalidParameterError(
                f"this {type(self).__name__} was saved without its ratings, or fitted on a file in pieces: "
                "there is nothing to add new ones to; expected a model that has its ratings, or a fit on all ratings"
            )
        new = updates.of_the_same_kind(updates.as_ratings(new_ratings), self.ratings_)
        self.check_ratings(new)
        merged = updates.merge(self.ratings_, new, self.seen_, warns=self.warns)
        other = type(self)(**self.get_params())
        other.check()
        posterior, news = updates.conclude(self, other, merged, sweeps, observer)
        seen = self.seen_.after(news, merged.ratings)
        (low, high), (least, most) = self.rating_range_, merged.ratings.range
        # Most models have checked that new ratings are within the range; counts may grow beyond it.
        widened = min(low, least), max(high, most)
        other.restore(merged.ratings, posterior, self.seed_, posterior.rating_range or widened, seen)
        other.news_, other.choice_ = news, self.choice_
        other.index_ = grown_index(self.index_, self.posterior_, posterior)
        return other

    @_suggests
    def with_items(self, items: Any, *, observer: Observer = silent) -> Self:
        """Return a new recommender that also knows these items, which nobody has rated; this one is unchanged.

        `items` is a frame with a column of ids, a file, `{id: {"title": ..., "genre": ..., "year": ...}}`, or
        `Features`: titles, attributes and features in the terms of the training ratings. Models that learn from
        features believe of a new item what its features tell, and are as unsure as they should be; for others it is an
        item like any.

        Draws are kept, as in `update` without a restart, and point estimates of a model that learns from features;
        any other model is fitted again.
        """
        self.require_fitted()
        described, remarks = new_items(items, self.ratings_)
        self._tell(remarks)
        return self.update(described, sweeps="auto" if self.kept_up is None else 0, observer=observer)

    @property
    def prediction_range(self) -> tuple[float, float]:
        """The range to which predictions are clipped."""
        return self.rating_range_

    @property
    def not_rated(self) -> float | None:
        """The value for not rated, if that is information for the model."""
        return None

    @property
    def takes_choices(self) -> bool:
        """Whether choices without a value are informative for the model."""
        return self.not_rated is not None or self.ratings_.kind in CHOICES

    @property
    def history_range(self) -> tuple[float, float]:
        """The values expected in a history."""
        return self.rating_range_

    def check_ratings(self, ratings: Ratings) -> None:
        """Refuse new ratings that differ in kind from those that the model was fitted on."""
        updates.check_range(ratings, self.rating_range_)

    @property
    def is_fitted(self) -> bool:
        return "posterior_" in self.__dict__

    @_suggests
    def about(
        self, user_ids: Ids | None = None, *, history: Any = None, user_features: Any = None, instead: bool = False
    ) -> queries.Query:
        """Prepare a query about users; the belief about them is computed once, on first use.

        To ask several things about the same users, pass the result in place of `user_ids`. `history`
        is as in `recommend`; with `instead` it replaces the training ratings of the users: for
        callers who store the ratings themselves, and may have deleted some. `user_features` is as in `recommend`.
        """
        query = self._query(user_ids, history, "about", instead=instead, user_features=user_features)
        self._tell(query.remarks)
        return replace(query, remarks=())

    @_suggests
    def predict(
        self, user_ids: Any, item_ids: Ids | None = None, *, history: Any = None, user_features: Any = None
    ) -> Prediction:
        """Predicted ratings of pairs, within the range of the training ratings.

        Users and items are lists of the same length, or one user and many items, or one item and many users; or one
        frame with the columns user and item. An item may be named by its title.

        Unknown users and items get the prediction of the prior and are flagged cold. `history` are ratings that the
        model has not seen, of known or new users, and `user_features` what is known of users (see `recommend`).
        """
        self.require_fitted()
        if item_ids is None:
            user_ids, item_ids = queries.both_of(user_ids)
        items = items_named(self.ratings_, item_ids)
        asked = user_ids if isinstance(user_ids, queries.Query) else id_series(listed(user_ids), "user")
        query = self._query(asked, history, "predict", user_features=user_features)
        users, positions = query.users, query.positions
        if len(users) == 1:
            users, positions = users.gather(np.zeros(len(items), np.uint32)), np.repeat(positions, len(items))
        elif len(items) == 1:
            items = items.gather(np.zeros(len(users), np.uint32))
        if len(users) != len(items):
            raise InvalidParameterError(
                f"{len(users)} users and {len(items)} items; expected equally many, or one of either"
            )
        item_rows = self.ratings_.items.rows_of(items)
        belief, pairs = query.belief, Pairs(positions, item_rows)
        predictive = belief.predictive(pairs)
        expected = None if predictive is None else predictive.belief
        mean = belief.mean(pairs) if expected is None else expected.mean().astype(np.float32)
        low, high = self.prediction_range
        return self._told(
            Prediction(
                user_ids=users,
                item_ids=items,
                titles=None if self.ratings_.item_titles is None else self.ratings_.title_of(item_rows),
                mean=np.clip(mean, low, high),
                cold=query.cold[positions] | (item_rows < 0),
                belief_sd=None if expected is None else expected.sd().astype(np.float32),
                rating_sd=None if predictive is None else predictive.rating.sd().astype(np.float32),
                rating=None if predictive is None else predictive.rating,
                unclipped=mean,
                remarks=query.remarks,
            )
        )

    @_suggests
    def recommend(
        self,
        user_ids: Ids | queries.Query | None = None,
        n: int = 10,
        *,
        history: Any = None,
        user_features: Any = None,
        policy: Policy | str = "best",
        exclude: Any = "seen",
        include_seen: bool = False,
        only: Any = None,
        where: str | None = None,
        diversity: float = 0.0,
        popularity_damping: float = 0.0,
        rules: Sequence[Rule | str] = (),
        shown: Any = None,
        index: Index | Literal["auto"] | None = "auto",
        uncertainty: bool = True,
        top_n: bool = False,
    ) -> Ranking:
        """The best items of each user.

        `history` are ratings that the model has not seen: `Ratings` of any users, ``{item: rating}`` of
        one, or a table of polars or pandas, with or without a column of users; for an implicit model also the items
        that one user chose. They count at once, beside the training ratings of a known user: the newer rating wins,
        but counts add up, and if all values were 1 in training they are 1 here. Without `user_ids` the answer is for
        the users of the history.

        `user_features` are what is known of users, new ones above all, in the terms of the features that the model was
        fitted with: ``{"age": 30, "occupation": "writer"}`` of one user, ``{user: {...}}``, or a table with a column of
        users. They replace what was known of these users in training.

        `policy` is how a belief becomes a ranking: "best", "rating", "cautious", "curious", "likely" or "thompson", or
        one of these with its parameter, such as ``Cautious(c=2)`` or "cautious:c=2" (see
        `tastespace.models.base.policies`). "best" is the order of the model: by the expected rating, which is "rating",
        or for `Joint` by choosing and liking. A model that provides no uncertainty has only these two.

        All filters apply together. `exclude="seen"` leaves out rated items, None nothing, items (a list,
        or a table with a column item) these and the seen ones; a table with the columns user and item leaves out
        those pairs and the seen ones. With `include_seen` the seen ones are not left out. `only` are items to choose
        from; an unknown one raises an error. A table of users and items gives each user their own items to choose from,
        and none to users who are not in it. `where` is a condition on titles and attributes, such as
        ``genre = Comedy and year >= 1990`` (see `tastespace.data.filters`).

        `diversity` (0 to 1) chooses the list among the best max(10 n, 100), preferring items that are good and unlike
        those before them. `popularity_damping` (0 to 1000) moves down items that many users rate (see
        `tastespace.models.base.top_n`). Both change the order, never the scores that are shown.

        `rules` are business rules, objects such as ``AtMost(2, of="genre")`` or texts such as "pin:item=318,place=1"
        (see `tastespace.models.base.rules`); `remarks` of the answer report the effect of each. `shown` is for the rule
        "not-shown": a table with the columns user, item and perhaps time.

        `index` finds the best items without scoring all of them: "auto" is the one chosen for this model
        (`tastespace index`, or `index_`), if any; None scores all items; or an index built over the posterior's item
        vectors. It is used under every policy: "cautious", "curious" and "likely" order the best 20 n (at least 200) by
        expected rating. "thompson" searches its own draw: by the index where items are the same in all draws
        (`ImplicitALS`, `LogisticMF`); otherwise all items of the draw are scored, since an index over the mean could
        not find its best. All items are also scored where each user has their own items to choose from, and where
        damping is combined with another policy than "best". `found_by` says how the lists were found.

        If the model provides uncertainty, each entry has it, unless `uncertainty=False`: an interval that contains a
        rating with a probability of 90 %; and for `Joint` also the expected rating, and the probabilities that the item
        is chosen and liked. With `top_n` each entry also has the probability that the item is one of the user's true
        best n by rating, of all that were allowed. This takes longer than the lists: with 10,000 items about 10
        milliseconds of CPU time per user for `ImplicitALS`, and 25 for `BPMF` with its 100 draws.
        """
        self.require_fitted()
        options = ListOptions(n, Best() if policy == "best" else policy_of(policy), diversity, popularity_damping)
        ruled = None
        if shown is not None or rules not in ((), []):
            ruled = Rules.of(rules, shown, self.ratings_, lambda: self._prepared.attributes, n)
            options = replace(options, rules=ruled)
        query = self._query(user_ids, history, "recommend", user_features=user_features)
        belief, n_items = query.belief, len(self.ratings_.items.ids)
        filters, doubts = self._filters(query, exclude, only, where, include_seen=include_seen, ruled=ruled)
        searched, scan = self._index(index)
        rng_of = query.rng_of("policy", getattr(options.policy, "request", 0))
        if uncertainty:
            belief.prepare()
        top = TopN(belief, filters, self._prepared, n_items, searched, rng_of, query.threads, scan)
        found, how = top.lists(options)
        sure = uncertainty_of(belief, found.items) if uncertainty else None
        if top_n and sure is not None and belief.uncertainty is not None:
            given = belief.uncertainty, found.items, n, filters, query.rng_of("top n")
            sure = replace(sure, top_n_probability=top_n_probabilities(*given))
        told = query.remarks + doubts
        self._tell(told)
        if ruled is not None:  # Normal effects of rules are not warnings.
            ruled.count_shown(query.each, top.effects)
            told += ruled.remarks(top.effects, len(query.each))
        return Ranking(
            **query.columns_of(found.items),
            scores=found.scores[query.positions],
            uncertainty=None if sure is None else sure.take(query.positions),
            found_by=how,
            effects=None if ruled is None else top.effects,
            remarks=told,
        )

    @_suggests
    def recommend_all(
        self,
        n: int = 10,
        *,
        out: str | Path | None = None,
        observer: Observer = silent,
        policy: Policy | str = "best",
        exclude: Any = "seen",
        include_seen: bool = False,
        only: Any = None,
        where: str | None = None,
        diversity: float = 0.0,
        popularity_damping: float = 0.0,
        rules: Sequence[Rule | str] = (),
        shown: Any = None,
        index: Index | Literal["auto"] | None = "auto",
        uncertainty: bool = True,
        top_n: bool = False,
    ) -> pl.DataFrame | None:
        """The best items of every training user, as a table: one row per entry, as in `recommend(...).to_polars()`.

        The options are those of `recommend`. Users are processed in blocks, on all cores; the lists are the same for
        any number of threads. The table is held in memory; with all columns it takes about 100 bytes per entry.

        With `out`, a Parquet file is written instead, in bounded memory, and None is returned. Finished parts are kept
        in a folder beside it, `<out>.parts`: after an interruption, the same call continues from there. A folder of
        another model or of other settings is refused, and so is a file that exists.
        """
        self.require_fitted()
        options = {
            **{"n": n, "policy": policy, "exclude": exclude, "include_seen": include_seen, "only": only},
            **{"where": where, "diversity": diversity, "popularity_damping": popularity_damping},
            **{"rules": rules, "shown": shown},
            **{"index": index, "uncertainty": uncertainty, "top_n": top_n},
        }
        frame, remarks = batch.recommend_all(self, None if out is None else Path(out), observer, options)
        self._tell(remarks)
        return frame

    @_suggests
    def ask(
        self,
        user_ids: Ids | queries.Query | None = None,
        n: int = 5,
        *,
        history: Any = None,
        exclude: Any = "seen",
        only: Any = None,
        where: str | None = None,
        among: int | None = AMONG,
        goal: Goal = "ratings",
    ) -> Questions:
        """The items that each user should rate next to learn most about what they may like.

        Without `user_ids` and `history` the questions are for a new user without ratings. `history`, `exclude`, `only`
        and `where` are as in `recommend`; the last three apply to the questions and to the goal. Users can only
        rate items that they know: questions are chosen `among` this many of the allowed items, those most rated in
        training (None: among all).

        `goal` is what to learn about: "ratings", those of all items (weighted by their number of ratings; those
        given by `only` equally), or "list", the best items of the list (see `tastespace.models.base.active_learning`).
        A model without a posterior raises an error.
        """
        self.require_fitted()
        options = QuestionOptions(n, among, goal)
        if user_ids is None and history is None:
            user_ids = [queries.new_name(self.ratings_)]
        query = self._query(user_ids, history, "ask")
        information = query.belief.information
        if information is None:
            raise InvalidParameterError(
                f"{type(self).__name__} provides no uncertainty, so it cannot choose questions; expected a model "
                f"with a posterior, such as {'ImplicitALS' if self.takes_choices else 'BPMF'}"
            )
        filters, doubts = self._filters(query, exclude, only, where)
        scan = threaded(self._prepared.scan, query.threads) if goal == "list" else None
        search = QuestionSearch(query, information, filters, only is not None, scan)
        return self._told(search.questions(options, query.remarks + doubts))

    def scores(self, user_ids: Ids, *, history: Any = None) -> Iterator[tuple[IntArray, FloatMatrix]]:
        """The scores that lists are ordered by, of all items, in bounded memory, for measures over whole rankings.

        Yields blocks of users: their positions among the requested users (each once, in order of appearance),
        and one row of scores each, minus infinity where they have rated an item. Where ratings are a nonlinear function
        of scores (levels, yes and no), these are the scores; lists order the best of them by
        the expected rating, which is almost the same.
        """
        query = self._query(user_ids, history, "scores")
        self._tell(query.remarks)
        for rows, block in score_blocks(query.belief, len(query.people), self.ratings_.n_items):
            seen = query.people.history.take(rows)
            block[seen.rows(), seen.columns] = -np.inf
            yield rows, block

    @_suggests
    def similar_items(
        self,
        item_ids: Ids,
        n: int = 10,
        *,
        exclude: Any = None,
        only: Any = None,
        where: str | None = None,
        shrinkage: float | None = None,
        kind: SimilarKind | None = None,
    ) -> Similar:
        """The items most similar to each of these: those in the same direction of the taste space.

        Biases are not compared: similarity is about the kind of an item, not about its quality. `exclude`, `only`
        and `where` filter as in `recommend`. An item with nothing to compare by gets an empty list and is flagged
        cold. An unknown item raises an error, and so does a model without a taste space.

        The direction of an item with few ratings is mostly chance. Similarities are multiplied by
        n / (n + `shrinkage`) for the n ratings of either item: by default with 20 ratings in a taste space, and with
        none for models with their own similarity: `EASE`, `ItemKNN`, and `Joint` and `Blend`, which use
        choices.

        `kind` "alternatives" lists items that are chosen and liked by the same users, and "complements" those
        that are chosen by the same users and no more similar in taste than an average item. Only `Joint` and `Blend`
        distinguish these; other models raise an error.
        """
        self.require_fitted()
        check_int("n", n, least=1)
        items = items_named(self.ratings_, item_ids)
        matching, doubts = self._matching(where)
        allowed = queries.allowed_items(self.ratings_, exclude=exclude, only=only, matching=matching)
        compared, remarks = self._prepared.items.compared(shrinkage, kind)
        found = similar_items(self.ratings_, compared, items, n, allowed, self._n_threads)
        return self._told(replace(found, remarks=doubts + remarks))

    @_suggests
    def similar_users(
        self, user_ids: Ids | queries.Query | None = None, n: int = 10, *, history: Any = None
    ) -> Similar:
        """The training users most similar to each of these, who may be new users with a history (see `recommend`).

        A user without any ratings, or with nothing to compare by, gets an empty list and is flagged cold. A
        model without a taste space raises an error.
        """
        self.require_fitted()
        check_int("n", n, least=1)
        query = self._query(user_ids, history, "similar_users")
        return self._told(similar_users(query, lambda: self._prepared.users, n))

    @_suggests
    def explain(self, user_id: Any | None, item_ids: Ids, *, history: Any = None, n: int = 5) -> Explanation:
        """Which of the user's own ratings raise or lower the scores of these items, and by how much: the `n` largest.

        `user_id` may be None if the history is of one user. A user without ratings is flagged cold.

        The contribution of a rating is the change of the prediction if the user had given that item the rating
        predicted for a new user (see `tastespace.models.base.attribution`); that of a choice, if they had not made
        it. Where the model also has a belief about choices, `chosen` of the answer has the same for that.
        """
        self.require_fitted()
        check_int("n", n, least=1)
        named = user_id is None or isinstance(user_id, queries.Query)
        query = self._query(user_id if named else [user_id], history, "explain")
        if len(query.users) != 1:
            raise InvalidParameterError(
                f"explain got a history of {len(query.users)} users; expected user_id, one of them"
            )
        people = query.people
        if not len(self.ratings_) and not people.cold[0] and not people.history.counts[0]:
            raise InvalidParameterError(
                "the model was saved without its ratings, so there is nothing to explain by; expected a history, "
                "or a model saved with its ratings"
            )
        return self._told(explain(query, items_named(self.ratings_, item_ids), n, self.not_rated))

    @_suggests
    def item_vectors(self, dimensions: int = 64) -> Vectors:
        """All items as vectors of at most so many dimensions, for a vector store of your own; see `user_vectors`."""
        short = self._shortened(dimensions)
        ids, titles = self.ratings_.items.ids, self.ratings_.item_titles
        return Vectors(side="item", ids=ids, titles=titles, vectors=short.items, offsets=None, error=short.error)

    @_suggests
    def user_vectors(
        self, user_ids: Ids | None = None, dimensions: int = 64, *, history: Any = None, user_features: Any = None
    ) -> Vectors:
        """Users as vectors, by default all training users; `history` and `user_features` are as in `recommend`.

        The inner product with the vectors of `item_vectors` of the same length, plus the offset of the user, is the
        score: the expected rating before it is clipped, for `Joint` as well, or for implicit feedback what lists are
        ordered by. Vectors of all draws are longer than that; `error` says what short ones lose.
        """
        short = self._shortened(dimensions)
        if user_ids is None and history is None:
            user_ids = self.ratings_.users.ids
        users = queries.users_of(self.ratings_, user_ids, history, "user_vectors")
        vectors, offsets = np.empty((len(users), short.items.shape[1]), np.float32), np.empty(len(users), np.float32)
        remarks: dict[str, None] = {}
        step = len(users) if history is not None else max(1, min(self._prepared.rated.people_at_once, 512))
        for start in range(0, len(users), max(step, 1)):
            part = slice(start, min(start + step, len(users)))
            query = self._query(users[part], history, "user_vectors", user_features=user_features)
            asked = query.belief.rated.queries
            assert asked is not None  # Where items have vectors, users have.
            codes, added = short.queries(contiguous(asked.vectors, np.float32), query.threads)
            vectors[part], offsets[part] = codes[query.positions], (added + asked.offsets)[query.positions]
            remarks |= dict.fromkeys(query.remarks)
        found: dict[str, Any] = {"vectors": vectors, "offsets": offsets, "error": short.error}
        return self._told(Vectors(side="user", ids=users, titles=None, **found, remarks=tuple(remarks)))

    def _shortened(self, dimensions: int) -> Shortened:
        self.require_fitted()
        check_int("dimensions", dimensions, least=1)
        short = self._prepared.rated.shortened(dimensions)
        if short is None:
            raise InvalidParameterError(f"{type(self).__name__} {self.posterior_.rated.no_index}")
        return short

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """The parameters by name, as scikit-learn expects them: those that the constructor takes.

        With `deep` also the fields of parameters that are objects, as `name__field`.
        """
        params = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, value in list(params.items()) if deep else ():
            if is_dataclass(value) and not isinstance(value, type):
                params |= {f"{name}__{field.name}": getattr(value, field.name) for field in fields(value)}
        return params

    def set_params(self, **params: Any) -> Self:
        """Change parameters, or as `name__field` the fields of one that is an object; takes effect at the next fit."""
        known = self.get_params(deep=True)
        params = translated(type(self), params, known)
        for name in params:
            if name not in known:
                raise InvalidParameterError(
                    f"{type(self).__name__} has no parameter {name!r}; expected one of {', '.join(known)}"
                )
        for name in sorted(params, key=lambda name: "__" in name):  # An object first, and then its fields.
            outer, _, inner = name.partition("__")
            setattr(self, outer, replace(getattr(self, outer), **{inner: params[name]}) if inner else params[name])
        return self

    def _repr_html_(self) -> str:
        """The model in a notebook: what it was fitted on, and the parameters that differ from their defaults."""
        own = {item.name: (getattr(self, item.name), item.default) for item in fields(self)}
        changed = [(name, str(value)) for name, (value, default) in own.items() if value != default]
        seen = f"fitted on {self.seen_}" if self.is_fitted else "not fitted yet"
        table = TextTable("Parameters that differ from their defaults", ("", "value"), tuple(changed))
        return f"<p><b>{type(self).__name__}</b>, {escape(seen)}</p>" + (table.to_html() if changed else "")

    def require_fitted(self) -> None:
        """Refuse to answer before `fit`."""
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(ratings) first")

    def _query(
        self,
        user_ids: Ids | queries.Query | None,
        history: Any,
        verb: str,
        *,
        instead: bool = False,
        user_features: Any = None,
    ) -> queries.Query:
        """The query for users and a history, with their ratings in training and since."""
        self.require_fitted()
        if isinstance(user_ids, queries.Query):
            if user_ids.posterior is not self.posterior_:
                raise InvalidParameterError(f"{verb} got the query of another model; expected about() of this model")
            for name, value in (("history", history), ("user_features", user_features)):
                if value is not None:
                    raise InvalidParameterError(f"{verb} got {name} beside about(); expected about(..., {name}=...)")
            return user_ids
        users = queries.users_of(self.ratings_, user_ids, history, verb)
        each, positions = queries.each_once(users)
        given: dict[str, Any] = {"instead": instead, "user_features": user_features}
        people, remarks = queries.find_people(self.ratings_, each, history, self._expected, **given)
        queries.check_history(self.posterior_, people, self.ratings_.items, self._expected)
        known = self.ratings_, self.posterior_, self.seed_, users, each, positions, people
        return queries.Query(*known, self._n_threads, remarks)

    @property
    def _n_threads(self) -> int:
        """The number of threads for an answer."""
        return self._prepared.n_cores if self.threads is None else threads.resolve(self.threads)

    def _expected_of(self, observed: Ratings) -> queries.Expected:
        """The values expected in a history."""
        low, high = self.history_range
        # If training had only choices, a history can have no more.
        is_only_that = observed.kind == "one-class" and (not len(observed) or observed.range == (1, 1))
        return queries.Expected(low, high, observed.kind, self.takes_choices, self.not_rated is not None, is_only_that)

    def _index(self, asked: Index | Literal["auto"] | None) -> tuple[Index | None, Exact | None]:
        """The requested index, with the threads that the model may use; or the scan chosen for this model."""
        if isinstance(asked, str):
            if asked != "auto":
                raise InvalidParameterError(f"index is {asked!r}; expected 'auto', None, or a built index")
            if self.index_ is None:
                return None, None
            chosen = with_threads(self.index_.index, self.threads)
            return (None, chosen) if isinstance(chosen, Exact) else (chosen, None)
        if asked is not None and (isinstance(asked, type) or not hasattr(asked, "n_items_")):
            raise InvalidParameterError(
                f"index is {asked!r}; expected 'auto', None, or an index that is built over posterior_.item_vectors"
            )
        return asked, None

    def _matching(self, where: str | None) -> tuple[BoolArray | None, queries.Remarks]:
        """The items that fulfil a condition, and remarks on it."""
        if where is None:
            return None, ()
        matching, doubts = Condition(where).matches(self._prepared.attributes)
        return matching, tuple(dict.fromkeys(doubts))

    def _filters(
        self,
        query: queries.Query,
        exclude: Any,
        only: Any,
        where: str | None,
        *,
        include_seen: bool = False,
        ruled: Rules | None = None,
    ) -> tuple[queries.Filters, queries.Remarks]:
        """The items that may be shown to each of the people, and remarks on them."""
        matching, doubts = self._matching(where)
        given: dict[str, Any] = {"exclude": exclude, "include_seen": include_seen, "only": only}
        make = partial(queries.filters_of, self.ratings_, query.each, query.people.history, **given)
        if ruled is None:
            return make(matching=matching), doubts
        return ruled.filters(make, matching), tuple(dict.fromkeys((*doubts, *ruled.doubts)))

    def _told(self, answer: Answer) -> Answer:
        """The answer of a public call; its remarks become warnings."""
        self._tell(answer.remarks)
        return answer

    def _tell(self, remarks: queries.Remarks) -> None:
        for remark in remarks if self.warns else ():
            warn(remark)
