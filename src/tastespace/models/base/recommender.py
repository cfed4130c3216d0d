"""The estimator a person holds: fields are its parameters, learned names end in an underscore."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
import polars as pl
from numpy.random import Generator

from tastespace import randomness, threads
from tastespace.arrays import BoolArray, FloatMatrix, IntArray
from tastespace.data.filters import Condition
from tastespace.data.kinds import CHOICES, Kind
from tastespace.data.ratings import Ratings
from tastespace.data.vocabulary import Ids, id_series, listed
from tastespace.errors import InvalidParameterError, NotFittedError, warn
from tastespace.index.index import Index, with_threads
from tastespace.index.structures.exact import Exact
from tastespace.index.trials import StoredIndex
from tastespace.inference.checkpoints import Checkpoints
from tastespace.models.base import batch, resuming
from tastespace.models.base import query as queries
from tastespace.models.base import update as updates
from tastespace.models.base.active_learning import AMONG, Goal, QuestionOptions, Questions, QuestionSearch
from tastespace.models.base.attribution import Explanation, explain
from tastespace.models.base.parameters import SearchSpace, check_declared, check_int
from tastespace.models.base.policies import Best, Policy, policy_of, top_n_probabilities, uncertainty_of
from tastespace.models.base.posterior import Pairs, Posterior, score_blocks
from tastespace.models.base.results import Prediction, Ranking, Table
from tastespace.models.base.rules import Rule, Rules
from tastespace.models.base.similarity import Similar, SimilarKind, similar_items, similar_users
from tastespace.models.base.top_n import ListOptions, Prepared, TopN, grown_index, threaded
from tastespace.progress import Observer, silent
from tastespace.settings import translated

Answer = TypeVar("Answer", bound=Table)


@dataclass(kw_only=True)
class Recommender(ABC):
    """Base of all models. A subclass writes `infer` and names its posterior's class; the rest is shared.

    `seed=None` takes a fresh seed, kept as `seed_`; the same seed gives the same bytes whatever the number of
    `threads` (None: all cores).
    """

    seed: int | None = None
    threads: int | None = None

    posterior_class: ClassVar[type[Any]]
    search_space: ClassVar[SearchSpace] = {}  # what `tune` searches of this model
    scores_are_ratings: ClassVar[bool] = True  # those of lists are expected ratings, or chances of a choice
    is_its_ratings: ClassVar[bool] = False  # the posterior holds the training ratings, and is nothing without them
    begins_from_others: ClassVar[bool] = False  # `infer` takes `given`, the items of another model (a `Start`)
    keeps_checkpoints: ClassVar[bool] = False  # `infer` takes `checkpoints`
    # What only some models do; None for the others.
    kept_up: ClassVar[Callable[..., Posterior] | None] = None  # the same draws for all ratings there are now
    restarted: ClassVar[Callable[..., Posterior] | None] = None  # chains that go on from where the old ones ended
    warns = True  # remarks of answers become Python warnings, for people at a prompt

    @abstractmethod
    def infer(
        self, observed: Ratings, rng: Generator, observer: Observer, held_out: Ratings | None = None
    ) -> Posterior:
        """Conclude from the ratings: all that a subclass writes. `held_out` may be watched, never learned from."""

    def check(self) -> None:
        """Refuse parameters that make no sense; a subclass adds its own."""
        threads.instruction_set()  # Says now, not in the first kernel, if TASTESPACE_ISA asks for the impossible.
        randomness.resolve(self.seed)
        threads.resolve(self.threads)
        check_declared(self)

    def suits(self, kind: Kind) -> bool:
        """Whether this model makes sense of ratings of this kind; by default of all that are no choices."""
        return kind not in CHOICES

    @classmethod
    def settings_for(cls, kind: Kind) -> dict[str, Any]:
        """The parameters that ratings of this kind ask for, where they differ from the defaults."""
        return {}

    def fit(
        self,
        observed: Ratings,
        *,
        held_out: Ratings | None = None,
        observer: Observer = silent,
        checkpoints: Checkpoints | None = None,
        start: Recommender | None = None,
    ) -> Self:
        """Learn from ratings. Fitting again starts afresh.

        `held_out` are ratings to watch: a model that takes many sweeps tells the observer how well it predicts them.
        They change nothing of what is learned.

        With `checkpoints` a model that samples keeps its state in a folder, and goes on from there after a crash (see
        `tastespace.inference.checkpoints`); another model refuses them.

        `start` is a fitted model with factors: a model of factors begins from its items, those that it knows, with the
        users where these put them (see `tastespace.models.base.resuming`).
        """
        for name, given in (("fit", observed), ("held_out", held_out)):
            if not isinstance(given, Ratings) and (name == "fit" or given is not None):
                raise InvalidParameterError(
                    f"{name} got {type(given).__name__}; expected Ratings: use tastespace.read or Ratings.from_frame"
                )
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
            # Without a seed, the run that goes on has that of the run that began.
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
        """Take a conclusion as one's own: what `fit` and the artifact end with.

        `seen` is what it was learned from, None for all these ratings.
        """
        threads.instruction_set()
        self.ratings_ = observed  # the ids at least; an artifact may have been saved without the ratings
        self.posterior_ = posterior
        self.seed_ = seed
        self.rating_range_ = rating_range
        self.seen_ = seen or updates.TrainingSummary(len(observed), observed.n_users, observed.n_items)
        self.news_: updates.UpdateSummary | None = None  # what an update brought
        self.index_: StoredIndex | None = None  # the one chosen for these items
        self._prepared, self._expected = Prepared(posterior, observed), self._expected_of(observed)
        return self

    def update(self, new_ratings: Any, *, sweeps: updates.Sweeps = "auto", observer: Observer = silent) -> Self:
        """A new recommender that has seen these ratings, too; this one is unchanged.

        `new_ratings` are `Ratings`, or a table with the columns user, item and rating, on the scale of those that the
        model was fitted on; choices need no rating. Known and new users and items may be among them; a pair rated again
        counts as it was rated last, and counts are added to those there were.

        A model that samples (`BPMF`) keeps its draws: what users rated counts at once, and new items get draws of
        their own. Old items stay as they are until chains go on from where they ended, with all ratings: `sweeps` is
        the number of sweeps before draws are kept again, 0 for no such restart. "auto" restarts when more than 5 % have
        been added since the last time. Any other model is fitted again on all ratings, with the same seed.

        `seen_` says what has been learned from, and what was added since; `news_` what this update did. An index goes
        on, with the new items beside it, as long as the old ones are where they were; else `index_` is None: choose one
        again.
        """
        self.require_fitted()
        updates.check_sweeps(sweeps)
        if not len(self.ratings_):
            raise InvalidParameterError(
                f"this {type(self).__name__} was saved without its ratings, or learned from a file piece by piece: "
                "there is nothing to add new ones to; expected a model that has its ratings, or a fit on all ratings"
            )
        new = updates.of_the_same_kind(updates.as_ratings(new_ratings), self.ratings_)
        self.check_ratings(new)
        merged, other = updates.merge(self.ratings_, new, self.seen_), type(self)(**self.get_params())
        other.check()
        posterior, news = updates.conclude(self, other, merged, sweeps, observer)
        seen = self.seen_.after(news, merged.ratings)
        (low, high), (least, most) = self.rating_range_, merged.ratings.range
        # Most models have checked that new ratings are within the range; choices may be made more often than before.
        widened = min(low, least), max(high, most)
        other.restore(merged.ratings, posterior, self.seed_, posterior.rating_range or widened, seen)
        other.news_ = news
        other.index_ = grown_index(self.index_, self.posterior_, posterior)
        return other

    @property
    def prediction_range(self) -> tuple[float, float]:
        """What predictions are clipped to."""
        return self.rating_range_

    @property
    def not_rated(self) -> float | None:
        """The value that says so, for a model to which that says something."""
        return None

    @property
    def takes_choices(self) -> bool:
        """Whether what was chosen, without a value, says something."""
        return self.not_rated is not None or self.ratings_.kind in CHOICES

    @property
    def history_range(self) -> tuple[float, float]:
        """What ratings of a history may be expected to be."""
        return self.rating_range_

    def check_ratings(self, ratings: Ratings) -> None:
        """Refuse new ratings that are not such as the model was fitted on."""
        updates.check_range(ratings, self.rating_range_)

    @property
    def is_fitted(self) -> bool:
        return "posterior_" in self.__dict__

    def about(self, user_ids: Ids | None = None, *, history: Any = None, instead: bool = False) -> queries.Query:
        """Users as a query is about them: what is believed of them is concluded once, when it is first needed.

        Where several things are asked about the same users, give what this returns in place of `user_ids`. `history`
        is as in `recommend`; with `instead` it is all that counts, in place of what the users rated in training: for
        whoever keeps the ratings themselves, and may have lost some.
        """
        query = self._query(user_ids, history, "about", instead=instead)
        self._tell(query.remarks)
        return replace(query, remarks=())

    def predict(self, user_ids: Ids | queries.Query, item_ids: Ids, *, history: Any = None) -> Prediction:
        """Predicted ratings of pairs, within the range of the training ratings.

        Unknown users and items get the prior's answer and are flagged cold. `history` are ratings that the
        model has not seen, of users old or new (see `recommend`).
        """
        self.require_fitted()
        items = id_series(listed(item_ids), "item")
        asked = user_ids if isinstance(user_ids, queries.Query) else id_series(listed(user_ids), "user")
        query = self._query(asked, history, "predict")
        users, positions = query.users, query.positions
        if query is user_ids and len(users) == 1:
            users, positions = users.gather(np.zeros(len(items), np.uint32)), np.repeat(positions, len(items))
        if len(users) != len(items):
            raise InvalidParameterError(f"{len(users)} users and {len(items)} items; expected as many of each")
        item_rows = self.ratings_.items.rows_of(items)
        belief, pairs = query.belief, Pairs(positions, item_rows)
        predictive = belief.predictive(pairs)
        mean = belief.mean(pairs) if predictive is None else predictive.belief.mean().astype(np.float32)
        low, high = self.prediction_range
        return self._told(
            Prediction(
                user_ids=users,
                item_ids=items,
                titles=None if self.ratings_.item_titles is None else self.ratings_.title_of(item_rows),
                mean=np.clip(mean, low, high),
                cold=query.cold[positions] | (item_rows < 0),
                belief_sd=None if predictive is None else predictive.belief.sd().astype(np.float32),
                rating_sd=None if predictive is None else predictive.rating.sd().astype(np.float32),
                rating=None if predictive is None else predictive.rating,
                unclipped=mean,
                remarks=query.remarks,
            )
        )

    def recommend(
        self,
        user_ids: Ids | queries.Query | None = None,
        n: int = 10,
        *,
        history: Any = None,
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
        one, or a table of polars or pandas, with or without a column of users; for a model of choices also the items
        that one chose. They count at once, beside the training ratings of a user who has any: the newer rating wins,
        but counts add up, and where all values were 1 in training they are here. Without `user_ids` the users of the
        history are meant.

        `policy` is how a belief becomes a ranking: "best", "rating", "cautious", "curious", "likely" or "thompson", or
        one of these with its parameter, such as ``Cautious(c=2)`` or "cautious:c=2" (see
        `tastespace.models.base.policies`). "best" is the order of the model: by the expected rating, which is "rating",
        or for `Joint` by what the user would choose and like. A model that does not know how sure it is has these only.

        All filters hold together. `exclude="seen"` leaves out what a user has rated, None nothing, items (a list,
        or a table with a column item) these and the seen ones; a table with the columns user and item leaves out
        those pairs and the seen ones. With `include_seen` the seen ones are not left out. `only` are items to choose
        from; an unknown one is an error. A table of users and items gives each user their own to choose from, and a
        user who is not in it none. `where` is a condition on titles and attributes, such as
        ``genre = Comedy and year >= 1990`` (see `tastespace.data.filters`).

        `diversity` (0 to 1) chooses the list among the best max(10 n, 100), each next item good and unlike those
        before it. `popularity_damping` (0 to 1000) moves down what most users rate (see
        `tastespace.models.base.top_n`). Both change the order, never the scores that are shown.

        `rules` are business rules, objects such as ``AtMost(2, of="genre")`` or texts such as "pin:item=318,place=1"
        (see `tastespace.models.base.rules`); `remarks` of the answer say what each did. `shown` is for the rule
        "not-shown": a table with the columns user, item and perhaps time.

        `index` finds the best without looking at every item: "auto" is the one that was chosen for this model
        (`tastespace index`, or `index_`), if any; None looks at every item; or one built over the posterior's item
        vectors. It is used under every policy: "cautious", "curious" and "likely" put the best 20 n (at least 200) by
        expected rating in order. "thompson" searches its own draw: by the index where items are the same in all draws
        (`ImplicitALS`, `LogisticMF`), or else all items of the draw are looked at, which no index over the mean could
        find the best of. Every item is also looked at where each user has a list of their own to choose from, and where
        damping meets another policy than "best". `found_by` says how it was.

        If the model knows how sure it is, each entry says so, unless `uncertainty=False`: an interval that holds a
        rating with a probability of 90 %; and for `Joint` also the expected rating, and how likely the item is to be
        chosen and to be liked. With `top_n` each entry also has the probability that the item is one of the user's true
        best n by rating, of all that were allowed. This takes longer than the lists: with 10,000 items about 10
        milliseconds of a processor a user for `ImplicitALS`, and 25 for `BPMF` with its 100 draws.
        """
        self.require_fitted()
        options = ListOptions(n, Best() if policy == "best" else policy_of(policy), diversity, popularity_damping)
        ruled = Rules.of(rules, shown, self.ratings_, lambda: self._prepared.attributes, n)
        options = options if ruled is None else replace(options, rules=ruled)
        query = self._query(user_ids, history, "recommend")
        belief, n_items = query.belief, len(self.ratings_.items.ids)
        filters, doubts = self._filters(query, exclude, only, where, include_seen=include_seen, ruled=ruled)
        searched, scan = self._index(index)
        rng_of = query.rng_of("policy", getattr(options.policy, "request", 0))
        top = TopN(belief, filters, self._prepared, n_items, searched, rng_of, query.threads, scan)
        found, how = top.lists(options)
        sure = uncertainty_of(belief, found.items) if uncertainty else None
        if top_n and sure is not None and belief.uncertainty is not None:
            given = belief.uncertainty, found.items, n, filters, query.rng_of("top n")
            sure = replace(sure, top_n_probability=top_n_probabilities(*given))
        told = query.remarks + doubts
        self._tell(told)
        if ruled is not None:  # What rules did as they were asked to is nothing to be warned of.
            ruled.count_shown(query.each, top.effects)
            told += ruled.remarks(top.effects, len(query.each))
        return Ranking(
            **query.columns_of(found.items),
            scores=found.scores[query.positions],
            uncertainty=None if sure is None else sure.take(query.positions),
            found_by=how,
            remarks=told,
        )

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
        """The best items of every training user, as a table: one row an entry, as `recommend(...).to_polars()` has it.

        The options are those of `recommend`. Users are taken some at a time, on all cores; the lists are the same for
        any number of threads. The table is held in memory, with everything shown about 100 bytes an entry.

        With `out`, a Parquet file is written instead, in bounded memory, and None is returned. What is finished is kept
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
        """What each user should be asked to rate next, so that what they may like is known soonest.

        Without `user_ids` and `history` someone new is meant, without ratings. `history`, `exclude`, `only` and
        `where` are as in `recommend`; the last three say what may be asked, and what is to be known. A person can only
        rate what they know: questions are chosen `among` so many of the allowed items, those most rated in training
        (None: among all).

        `goal` is what is to be known: "ratings", those of whatever people rate (each item counts as often; those
        named by `only` all the same), or "list", the best of the list (see `tastespace.models.base.active_learning`). A
        model without a posterior is an error.
        """
        self.require_fitted()
        options = QuestionOptions(n, among, goal)
        if user_ids is None and history is None:
            user_ids = [queries.new_name(self.ratings_)]
        query = self._query(user_ids, history, "ask")
        information = query.belief.information
        if information is None:
            raise InvalidParameterError(
                f"{type(self).__name__} predicts a point and does not know what an answer would tell; expected a model "
                f"with a posterior, such as {'ImplicitALS' if self.takes_choices else 'BPMF'}"
            )
        filters, doubts = self._filters(query, exclude, only, where)
        scan = threaded(self._prepared.scan, query.threads) if goal == "list" else None
        search = QuestionSearch(query, information, filters, only is not None, scan)
        return self._told(search.questions(options, query.remarks + doubts))

    def scores(self, user_ids: Ids, *, history: Any = None) -> Iterator[tuple[IntArray, FloatMatrix]]:
        """What lists are ordered by, for measures over whole rankings: the scores of all items, in bounded memory.

        Some users at a time: their positions among the users asked about (each once, in order of appearance),
        and one row of scores each, minus infinity where they have rated an item. Where ratings follow from scores
        and not as a straight line (levels, yes and no), these are the scores; lists put the best of them in order of
        the expected rating, which is almost the same.
        """
        query = self._query(user_ids, history, "scores")
        self._tell(query.remarks)
        for rows, block in score_blocks(query.belief, len(query.people), self.ratings_.n_items):
            seen = query.people.history.take(rows)
            block[seen.rows(), seen.columns] = -np.inf
            yield rows, block

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
        """The items most like each of these: those in the same direction of the taste space.

        A bias is no part of it: similarity is about the kind of a thing, not about how good it is. `exclude`, `only`
        and `where` filter as in `recommend`. An item with nothing to be compared by gets an empty list and is flagged
        cold. An unknown item is an error, and so is a model without tastes.

        The direction of an item with few ratings is mostly chance. Similarities are multiplied by
        n / (n + `shrinkage`) for the n ratings of either item: by default with 20 ratings in a taste space, and with
        none for models that compare in a way of their own (`EASE`, `ItemKNN`, and `Joint`, which goes by choices).

        `kind` "alternatives" lists what is chosen by the same users and liked by the same users, and "complements" what
        is chosen by the same users and no more alike in taste than an average item. `Joint` can tell; other models
        refuse.
        """
        self.require_fitted()
        check_int("n", n, least=1)
        items = id_series(listed(item_ids), "item")
        matching, doubts = self._matching(where)
        allowed = queries.allowed_items(self.ratings_, exclude=exclude, only=only, matching=matching)
        compared, remarks = self._prepared.items.compared(shrinkage, kind)
        found = similar_items(self.ratings_, compared, items, n, allowed, self._n_threads)
        return self._told(replace(found, remarks=doubts + remarks))

    def similar_users(
        self, user_ids: Ids | queries.Query | None = None, n: int = 10, *, history: Any = None
    ) -> Similar:
        """The training users most like each of these, who may be new users with a history (see `recommend`).

        Someone without any ratings, or with nothing to be compared by, gets an empty list and is flagged cold. A
        model without tastes is an error.
        """
        self.require_fitted()
        check_int("n", n, least=1)
        query = self._query(user_ids, history, "similar_users")
        return self._told(similar_users(query, lambda: self._prepared.users, n))

    def explain(self, user_id: Any | None, item_ids: Ids, *, history: Any = None, n: int = 5) -> Explanation:
        """Which of the user's own ratings pushed these items up or down, and how much: the `n` largest of each.

        `user_id` may be None where a history is of one user. Someone without ratings is flagged cold.

        The contribution of a rating is what the prediction would lose, had the user rated that one thing as a
        new user would be predicted to (see `tastespace.models.base.attribution`); that of a choice, had they not made
        it. Where the model also has a belief about what is chosen, `chosen` of the answer is the same of that.
        """
        self.require_fitted()
        check_int("n", n, least=1)
        named = user_id is None or isinstance(user_id, queries.Query)
        query = self._query(user_id if named else [user_id], history, "explain")
        if len(query.users) != 1:
            raise InvalidParameterError(
                f"explain got a history of {len(query.users)} users; expected to be told which one"
            )
        people = query.people
        if not len(self.ratings_) and not people.cold[0] and not people.history.counts[0]:
            raise InvalidParameterError(
                "the model was saved without its ratings, so that there is nothing to explain by; expected a history, "
                "or a model saved with its ratings"
            )
        return self._told(explain(query, id_series(listed(item_ids), "item"), n, self.not_rated))

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """The parameters by name, as scikit-learn asks for them: those that the constructor takes.

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
        for name in sorted(params, key=lambda name: "__" in name):  # An object first, and then what is inside it.
            outer, _, inner = name.partition("__")
            setattr(self, outer, replace(getattr(self, outer), **{inner: params[name]}) if inner else params[name])
        return self

    def require_fitted(self) -> None:
        """Refuse to answer before `fit`."""
        if not self.is_fitted:
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit(ratings) first")

    def _query(
        self, user_ids: Ids | queries.Query | None, history: Any, verb: str, *, instead: bool = False
    ) -> queries.Query:
        """Who is meant by users and a history, and what they rated in training and since."""
        self.require_fitted()
        if isinstance(user_ids, queries.Query):
            if user_ids.posterior is not self.posterior_:
                raise InvalidParameterError(
                    f"{verb} got users as another model sees them; expected about() of this model"
                )
            if history is not None:
                raise InvalidParameterError(f"{verb} got a history beside about(); expected about(..., history=...)")
            return user_ids
        users = queries.users_of(self.ratings_, user_ids, history, verb)
        each, positions = queries.each_once(users)
        people, remarks = queries.find_people(self.ratings_, each, history, self._expected, instead=instead)
        queries.check_history(self.posterior_, people, self.ratings_.items, self._expected)
        given = self.ratings_, self.posterior_, self.seed_, users, each, positions, people
        return queries.Query(*given, self._n_threads, remarks)

    @property
    def _n_threads(self) -> int:
        """How many threads an answer may take."""
        return self._prepared.n_cores if self.threads is None else threads.resolve(self.threads)

    def _expected_of(self, observed: Ratings) -> queries.Expected:
        """What the ratings of a history may be expected to be."""
        low, high = self.history_range
        # Where training knew only that things were chosen, a history can say no more.
        is_only_that = observed.kind == "one-class" and (not len(observed) or observed.range == (1, 1))
        return queries.Expected(low, high, observed.kind, self.takes_choices, self.not_rated is not None, is_only_that)

    def _index(self, asked: Index | Literal["auto"] | None) -> tuple[Index | None, Exact | None]:
        """The index meant, with as many threads as the model may use; or the scan that was chosen for this model."""
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
        """The items that fulfil a condition, and what is doubtful about it."""
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
        """What may be shown to each of the people, and what is doubtful about it."""
        matching, doubts = self._matching(where)
        given: dict[str, Any] = {"exclude": exclude, "include_seen": include_seen, "only": only}
        make = partial(queries.filters_of, self.ratings_, query.each, query.people.history, **given)
        if ruled is None:
            return make(matching=matching), doubts
        return ruled.filters(make, matching), tuple(dict.fromkeys((*doubts, *ruled.doubts)))

    def _told(self, answer: Answer) -> Answer:
        """The answer of a public call, whose remarks become warnings."""
        self._tell(answer.remarks)
        return answer

    def _tell(self, remarks: queries.Remarks) -> None:
        for remark in remarks if self.warns else ():
            warn(remark)
