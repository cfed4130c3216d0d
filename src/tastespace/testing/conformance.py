"""Conformance tests of recommenders: a suite to inherit from.

    class TestMine(RecommenderConformance):
        def make(self, **parameters):
            return Mine(**parameters)

A personal model (one that learns tastes) also gets the checkerboard right; set `is_personal = False` for one that gives
everyone the same answers. Set `explanations_add_up = False` for one whose predictions are not linear in a user's
ratings, given what they rated.
"""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from numpy.testing import assert_array_equal

from tastespace.artifact import load, save
from tastespace.data.ratings import Ratings
from tastespace.errors import DataError, InvalidParameterError, NotFittedError, UnknownIdError
from tastespace.index.structures.exact import Exact
from tastespace.models import Recommender
from tastespace.models.base.posterior import Belief, Pairs, People, abilities_of, score_blocks
from tastespace.randomness import generator
from tastespace.testing.toys import checkerboard, tastes


def believed(fitted: Recommender, users: Sequence[int] | None = None) -> Belief:
    """The belief about training users, given as rows (None: about all); row -1 is a new user."""
    rows = np.array(range(fitted.ratings_.n_users) if users is None else users, np.int32)
    return fitted.posterior_.believe(People.known(rows, fitted.ratings_.by_user), 1)


class RecommenderConformance:
    """The suite; a subclass defines `make`."""

    is_personal = True
    scores_are_ratings = True  # False for a model that ranks by something other than the rating it predicts
    explanations_add_up = True  # False where a rating's effect depends on the user's other ratings
    keeps_users = True  # False for a model that answers from ratings, and knows no users without them
    predicts_ratings = True  # False for a model whose predictions are not ratings, and have a different range

    _kept: ClassVar[dict[tuple[str, str], Recommender]]

    def __init_subclass__(cls) -> None:
        cls._kept = {}

    def make(self, **parameters: Any) -> Recommender:
        raise NotImplementedError("write make(**parameters) in your test class")

    @pytest.fixture
    def ratings(self) -> Ratings:
        return tastes(40, 30, rng=generator(3))[0]

    def board(self, size: int) -> Ratings:
        """Ratings that distinguish a model with tastes from one without."""
        return checkerboard(size)

    @pytest.fixture
    def fitted(self, ratings: Ratings) -> Recommender:
        return self._fitted_once("plain", ratings)

    def _fitted_once(self, name: str, ratings: Ratings) -> Recommender:
        """A copy of a model that is fitted once per class: most tests only query, and fits take the time."""
        key = (name, ratings.fingerprint())
        if key not in self._kept:
            self._kept[key] = self.make(seed=1, threads=1).fit(ratings)
        return copy.copy(self._kept[key])

    # Parameters

    def test_constructor_only_stores(self) -> None:
        recommender = self.make(seed=7, threads=2)
        names = [field.name for field in dataclasses.fields(recommender)]
        assert list(recommender.get_params()) == names
        assert recommender.get_params()["seed"] == 7
        assert not recommender.is_fitted

    def test_scikit_learn_can_clone_it(self) -> None:
        base = pytest.importorskip("sklearn.base")
        recommender = self.make(seed=7, threads=2)
        clone = base.clone(recommender)
        assert type(clone) is type(recommender)
        assert clone.get_params() == recommender.get_params()

    def test_fields_of_parameters_are_parameters(self) -> None:
        """Fields of an object parameter are named parameter__field."""
        recommender = self.make(seed=7)
        for name, value in recommender.get_params(deep=True).items():
            recommender.set_params(**{name: value})
        assert recommender.get_params(deep=True) == self.make(seed=7).get_params(deep=True)

    def test_unknown_parameters_are_refused_by_name(self) -> None:
        with pytest.raises(InvalidParameterError, match="wibble"):
            self.make().set_params(wibble=1)

    @pytest.mark.parametrize(("name", "value"), [("seed", -1), ("seed", 1.5), ("threads", 0)])
    def test_senseless_parameters_are_refused_by_name(self, name: str, value: Any, ratings: Ratings) -> None:
        with pytest.raises(InvalidParameterError, match=name):
            self.make(**{name: value}).fit(ratings)

    def test_asking_before_fitting_says_so(self) -> None:
        with pytest.raises(NotFittedError, match="fit"):
            self.make().predict([1], [1])
        with pytest.raises(NotFittedError, match="fit"):
            self.make().recommend([1])

    def test_fit_wants_ratings(self) -> None:
        with pytest.raises(InvalidParameterError, match="Ratings"):
            self.make().fit([[1, 2, 3]])

    # Fitting

    def test_fit_returns_itself_and_leaves_the_ratings_alone(self, ratings: Ratings) -> None:
        before = copy.deepcopy((ratings.user_rows, ratings.item_rows, ratings.values))
        recommender = self.make(seed=1)
        assert recommender.fit(ratings) is recommender
        for array, kept in zip((ratings.user_rows, ratings.item_rows, ratings.values), before, strict=True):
            assert_array_equal(array, kept)

    def test_same_seed_same_bytes_whatever_the_threads(self, ratings: Ratings, tmp_path: Path) -> None:
        for threads in (1, 2):
            save(self.make(seed=5, threads=threads).fit(ratings), tmp_path / str(threads))
        for file in sorted((tmp_path / "1").iterdir()):
            assert file.read_bytes() == (tmp_path / "2" / file.name).read_bytes(), file.name

    @pytest.mark.filterwarnings("ignore::tastespace.errors.TastespaceWarning")
    def test_a_fresh_seed_is_kept_and_repeats_the_fit(self, ratings: Ratings) -> None:
        """Any seed may be drawn: with some of them descent diverges, with a warning."""
        first = self.make().fit(ratings)
        again = self.make(seed=first.seed_).fit(ratings)
        for name, array in first.posterior_.arrays().items():
            assert_array_equal(array, again.posterior_.arrays()[name])

    def test_fitting_again_starts_afresh(self, fitted: Recommender, ratings: Ratings) -> None:
        recommender = self.make(seed=1).fit(checkerboard()).fit(ratings)
        assert_array_equal(recommender.recommend([1, 2]).item_rows, fitted.recommend([1, 2]).item_rows)

    def test_relabelled_ids_give_relabelled_answers(self, fitted: Recommender, ratings: Ratings) -> None:
        relabelled = Ratings.from_arrays(
            [f"user {entry}" for entry in ratings.user_ids()],
            [f"item {entry}" for entry in ratings.item_ids()],
            ratings.values,
        )
        other = self.make(seed=1).fit(relabelled)
        known = ratings.users.ids.head(5)
        expected = [f"item {entry}" for entry in fitted.recommend(known).item_ids]
        assert other.recommend([f"user {entry}" for entry in known]).item_ids.to_list() == expected

    # Extremes

    @pytest.mark.parametrize(
        "tiny",
        [
            Ratings.from_arrays([1], [1], [4.0]),
            Ratings.from_arrays([1] * 5, range(5), [3.0] * 5),
            Ratings.from_arrays(range(5), [1] * 5, [1.0, 2, 3, 4, 5]),
            Ratings.from_arrays(np.arange(400) % 20, np.arange(400) // 20, [2.0] * 400),
        ],
        ids=["one rating", "one user", "one item", "all equal"],
    )
    def test_tiny_data_give_sensible_answers(self, tiny: Ratings) -> None:
        recommender = self.make(seed=1).fit(tiny)
        low, high = recommender.prediction_range
        mean = recommender.predict(tiny.user_ids(), tiny.item_ids()).mean
        assert np.isfinite(mean).all()
        assert (mean >= low).all()
        assert (mean <= high).all()
        listed = recommender.recommend([1], exclude=None)
        assert np.isfinite(listed.scores[listed.item_rows >= 0]).all()

    # Predictions

    def test_predictions_are_in_range_and_in_order(self, fitted: Recommender, ratings: Ratings) -> None:
        users, items = ratings.user_ids(), ratings.item_ids()
        prediction = fitted.predict(users, items)
        low, high = fitted.prediction_range
        if self.predicts_ratings:
            assert (low, high) == ratings.range
            fitted.rating_range_ = (low + 1.0, high - 1.0)
            narrow = fitted.predict(users, items).mean
            fitted.rating_range_ = (low, high)
            assert_array_equal(narrow, np.clip(prediction.mean, low + 1.0, high - 1.0))
        assert prediction.mean.shape == (len(ratings),)
        assert prediction.mean.min() >= low
        assert prediction.mean.max() <= high
        assert not prediction.cold.any()
        backwards = fitted.predict(users.reverse(), items.reverse())
        assert_array_equal(backwards.mean[::-1], prediction.mean)

    def test_new_users_get_the_prior_answer_and_are_flagged(self, fitted: Recommender) -> None:
        prediction = fitted.predict([0, 10**6, 0, 10**6], [0, 0, 10**6, 10**6])
        assert prediction.cold.tolist() == [False, True, True, True]
        assert np.isfinite(prediction.mean).all()

    def test_results_become_frames(self, fitted: Recommender) -> None:
        prediction = fitted.predict([0, 1], [2, 3])
        sure = [] if prediction.belief_sd is None else ["belief_sd", "rating_sd", "low", "high"]
        interval = sure or (["rating_sd", "low", "high"] if prediction.is_uncertain else [])
        assert prediction.to_polars().columns == ["user", "item", "mean", *interval, "cold"]
        assert prediction.to_pandas().shape == (2, 4 + len(interval))
        liking, chosen = [], []
        if abilities_of(fitted.posterior_)["choices"]:
            liking, chosen = ["liked_from", "base_rate"], ["chosen_probability", "expected_rating", "liked_probability"]
        columns = ["user", "cold", *liking, "rank", "item", "score", *chosen, *sure]
        assert fitted.recommend([0, 1], 3).to_polars().columns == columns
        ranking = fitted.recommend([0, 1], 3, top_n=True)
        columns += ["top_n_probability"] if sure else []
        assert ranking.to_polars().columns == columns
        assert ranking.to_pandas().shape == (6, len(columns))
        assert "user 0" in repr(ranking)

    # Recommendations

    @pytest.fixture
    def described(self, ratings: Ratings) -> Recommender:
        """Fitted on ratings with attributes: every second item is a comedy, years count up."""
        n = ratings.n_items
        genres = [["Comedy"] if row % 2 == 0 else ["Drama", "War"] for row in range(n)]
        table = pl.DataFrame({"genres": genres, "year": range(1980, 1980 + n)})
        return self._fitted_once("described", ratings.with_items(None, table))

    def test_lists_are_sorted_unseen_and_without_repeats(self, fitted: Recommender, ratings: Ratings) -> None:
        ranking = fitted.recommend(ratings.users.ids, 10)
        for row in range(len(ranking)):
            items = ranking.item_rows[row][ranking.item_rows[row] >= 0]
            assert len(set(items)) == len(items)
            seen = ratings.by_user.take(np.array([row], np.int32)).columns
            assert not set(items) & set(seen)
            scores = ranking.scores[row][: len(items)]
            assert (np.diff(scores) <= 0).all()

    def test_one_user_alone_and_among_others(self, fitted: Recommender) -> None:
        alone, among = fitted.recommend([3], 5), fitted.recommend([1, 2, 3, 3], 5)
        assert_array_equal(alone.item_rows[0], among.item_rows[2])
        assert_array_equal(among.item_rows[2], among.item_rows[3])

    def test_more_than_there_is(self, fitted: Recommender, ratings: Ratings) -> None:
        ranking = fitted.recommend([0], 10**6)
        n_seen = int(ratings.by_user.counts[0])
        assert ranking.of(0).height == ratings.n_items - n_seen

    def test_filters(self, fitted: Recommender, ratings: Ratings) -> None:
        everything = fitted.recommend([0], ratings.n_items, exclude=None)
        assert everything.of(0).height == ratings.n_items
        best = everything.item_ids[0]
        without = fitted.recommend([0], ratings.n_items, exclude=[best])
        seen = set(ratings.items.at(ratings.by_user.take(np.array([0], np.int32)).columns))
        assert not (seen | {best}) & set(without.item_ids)
        only = fitted.recommend([0], 5, only=[best], exclude=None)
        assert only.of(0)["item"].to_list() == [best]
        with pytest.raises(UnknownIdError, match="nowhere"):
            fitted.recommend([0], only=["nowhere"])
        for n in (0, -1, 2.5):
            with pytest.raises(InvalidParameterError, match="n is"):
                fitted.recommend([0], n)  # type: ignore[arg-type]

    def test_conditions_choose_among_the_items(self, described: Recommender, ratings: Ratings) -> None:
        n = ratings.n_items
        everything = described.recommend([0, "nobody"], n)
        chosen = described.recommend([0, "nobody"], n, where="genre = comedy and year >= 1990")
        for position in range(2):
            rows = everything.item_rows[position]
            expected = rows[(rows >= 10) & (rows % 2 == 0)]
            shown = chosen.item_rows[position]
            assert_array_equal(shown[shown >= 0], expected)

    def test_tables_of_pairs_concern_their_users(self, fitted: Recommender, ratings: Ratings) -> None:
        first, second = (fitted.recommend([user], 2).item_ids[0] for user in (0, 1))
        n = ratings.n_items
        pairs = pl.DataFrame({"user": [0, 1, 7], "item": [first, second, first]})
        plain, less = fitted.recommend([0, 1], n), fitted.recommend([0, 1], n, exclude=pairs)
        for position, item in enumerate((first, second)):
            expected = [entry for entry in plain.of(position)["item"] if entry != item]
            assert less.of(position)["item"].to_list() == expected
        own = fitted.recommend([0, 1, 2], only=pairs)
        assert [table["item"].to_list() for table in own] == [[first], [second], []]

    def test_popularity_damping_moves_down_what_everybody_rates(self, fitted: Recommender, ratings: Ratings) -> None:
        plain = fitted.recommend(ratings.users.ids, 5)
        damped = fitted.recommend(ratings.users.ids, 5, popularity_damping=5.0)
        counts = ratings.by_item.counts
        assert counts[damped.item_rows].mean() <= counts[plain.item_rows].mean()
        for row in range(len(damped)):
            seen = ratings.by_user.take(np.array([row], np.int32)).columns
            assert not set(damped.item_rows[row]) & set(seen)
        again = self._all_scores(fitted, ratings)
        shown = [again[row, item] for row in range(len(damped)) for item in damped.item_rows[row]]
        np.testing.assert_allclose(damped.scores.reshape(-1), shown, rtol=1e-4, atol=1e-4)

    def _all_scores(self, fitted: Recommender, ratings: Ratings) -> dict[tuple[int, ...], Any]:
        """The values that lists show, by rows of user and item: scores, or expected ratings where scores are latent."""
        belief, scores = believed(fitted), np.empty((ratings.n_users, ratings.n_items), np.float32)
        for rows, block in score_blocks(belief, *scores.shape):
            scores[rows] = block
        if belief.is_latent:
            users, items = (places.astype(np.int32) for places in np.indices(scores.shape).reshape(2, -1))
            scores = belief.listed(Pairs(users, items)).reshape(scores.shape)
        return dict(np.ndenumerate(scores))

    def test_diversity_chooses_among_what_may_be_shown(self, fitted: Recommender, ratings: Ratings) -> None:
        users = ratings.users.ids
        plain = fitted.recommend(users, 5)
        assert_array_equal(fitted.recommend(users, 5, diversity=0.0).item_rows, plain.item_rows)
        diverse = fitted.recommend(users, 5, diversity=0.7)
        assert_array_equal(diverse.item_rows[:, 0], plain.item_rows[:, 0])
        for row in range(len(diverse)):
            assert len(set(diverse.item_rows[row])) == 5
            assert not set(diverse.item_rows[row]) & set(ratings.by_user.take(np.array([row], np.int32)).columns)

    # Similarity and reasons

    @pytest.mark.parametrize("side", ["items", "users"])
    def test_similarity_or_its_refusal(self, fitted: Recommender, ratings: Ratings, side: str) -> None:
        """Similarities go from 1 down to -1, without repeats, and without the item or user itself."""
        similar, ids = getattr(fitted, f"similar_{side}"), getattr(ratings, side).ids
        if not abilities_of(fitted.posterior_)[f"similar_{side}"]:
            with pytest.raises(InvalidParameterError, match=f"how similar {side} are"):
                similar([0])
            return
        found = similar(ids, len(ids))
        for position, table in enumerate(found):
            similarity = table["similarity"].to_numpy()
            assert (np.diff(similarity) <= 0).all()
            assert (np.abs(similarity) <= 1 + 1e-5).all()
            assert table[found.side].n_unique() == table.height
            assert found.ids[position] not in table[found.side].to_list()
        if side == "items":
            with pytest.raises(UnknownIdError, match="nowhere"):
                similar(["nowhere"])
            return
        found = fitted.similar_users(["nobody", "new"], history=Ratings.from_arrays(["new"] * 2, [0, 1], [5.0, 1.0]))
        assert found.cold.tolist() == [True, False]
        assert found.of(0).height == 0

    def test_explanations(self, fitted: Recommender, ratings: Ratings) -> None:
        items = ratings.items.ids.head(6)
        explanation = fitted.explain(0, items, n=3)
        rated = ratings.by_user.take(ratings.users.rows_of([0]))
        assert explanation.rated_ids.to_list() == ratings.items.at(rated.columns).to_list()
        assert explanation.contributions.shape == (6, len(rated.columns))
        assert np.isfinite(explanation.contributions).all()
        assert explanation.of(0).height == min(3, len(rated.columns))
        whole = explanation.base + explanation.contributions.sum(axis=1) + explanation.remainder
        np.testing.assert_allclose(whole, explanation.scores, atol=1e-4)
        if self.explanations_add_up:
            np.testing.assert_allclose(explanation.remainder, 0, atol=1e-3)
        if self.scores_are_ratings:
            ranking = fitted.recommend([0], only=items, exclude=None)
            scores = dict(zip(ranking.item_ids, ranking.scores[0], strict=True))
            np.testing.assert_allclose(explanation.scores, [scores[item] for item in items], atol=2e-3)
        assert fitted.explain("nobody", items).cold

    def test_scores_agree_with_predictions_in_order(self, fitted: Recommender, ratings: Ratings) -> None:
        """The scan and the pairwise scores are two kernels for one number."""
        ranking = fitted.recommend([0], ratings.n_items, exclude=None)
        rows, of_all = ranking.item_rows[0], self._all_scores(fitted, ratings)
        found = [of_all[0, item] for item in rows.tolist()]
        np.testing.assert_allclose(ranking.scores[0], found, rtol=1e-5, atol=1e-5)
        if self.scores_are_ratings:
            predicted = believed(fitted).mean(Pairs.of_one(0, rows))
            np.testing.assert_allclose(ranking.scores[0], predicted, rtol=1e-5, atol=1e-5)

    def test_an_index_of_ones_own(self, fitted: Recommender) -> None:
        vectors = fitted.posterior_.item_vectors
        if vectors is None:
            with pytest.raises(InvalidParameterError, match="no item vectors"):
                fitted.recommend([0], index=Exact(threads=1).build(np.ones((3, 2), np.float32)))
            return
        index = Exact(threads=1).build(vectors)
        assert_array_equal(fitted.recommend([0, 1], index=index).item_rows, fitted.recommend([0, 1]).item_rows)

    # History

    def test_a_training_user_folded_in_stays_in_place(self, fitted: Recommender, ratings: Ratings) -> None:
        """The belief of training about a user follows from their ratings alone, given the items."""
        rows = np.arange(ratings.n_users, dtype=np.int32)
        folded = fitted.posterior_.believe(People.new_users(ratings.by_user), 1)
        pairs = Pairs(rows, np.zeros(len(rows), np.int32))
        np.testing.assert_allclose(folded.mean(pairs), believed(fitted).mean(pairs), rtol=1e-3, atol=1e-3)

    def test_a_new_user_with_a_history_is_not_cold(self, fitted: Recommender) -> None:
        ranking = fitted.recommend(history={0: 5.0, 1: 1.0}, n=5)
        assert not ranking.cold[0]
        assert not {0, 1} & set(ranking.item_ids.to_list())
        assert fitted.recommend(["nobody"]).cold[0]

    def test_news_of_one_user_do_not_touch_another(self, fitted: Recommender, tmp_path: Path) -> None:
        save(fitted, tmp_path / "model", with_ratings=fitted.is_its_ratings)
        history = Ratings.from_arrays(["new"], [0], [5.0])
        for recommender in (fitted, load(tmp_path / "model", models=[type(fitted)])):
            alone = recommender.recommend([1], exclude=None)
            together = recommender.recommend(["new", 1], history=history, exclude=None)
            assert_array_equal(together.scores[1], alone.scores[0])

    def test_a_new_user_is_never_taken_for_a_user_of_that_name(self) -> None:
        users = ["you"] * 3 + ["other"] * 2
        recommender = self.make(seed=1).fit(Ratings.from_arrays(users, [0, 1, 2, 0, 1], [1.0, 2, 3, 4, 5]))
        assert recommender.recommend(history={0: 5.0}).item_ids.to_list() != []

    def test_histories_of_several_users(self, fitted: Recommender) -> None:
        history = Ratings.from_arrays(["a", "a", "b"], [0, 1, 2], [5.0, 1.0, 4.0])
        both = fitted.recommend(history=history, n=4)
        assert both.user_ids.to_list() == ["a", "b"]
        alone = fitted.recommend(["a"], history={0: 5.0, 1: 1.0}, n=4)
        assert_array_equal(both.item_rows[0], alone.item_rows[0])

    # Artifact

    def test_saved_and_loaded_it_answers_the_same(self, fitted: Recommender, ratings: Ratings, tmp_path: Path) -> None:
        save(fitted, tmp_path / "model")
        loaded = load(tmp_path / "model", models=[type(fitted)])
        assert type(loaded) is type(fitted)
        users = ratings.users.ids
        assert_array_equal(loaded.recommend(users).item_rows, fitted.recommend(users).item_rows)
        assert_array_equal(loaded.recommend(users).scores, fitted.recommend(users).scores)
        predicted = fitted.predict(ratings.user_ids(), ratings.item_ids()).mean
        assert_array_equal(loaded.predict(ratings.user_ids(), ratings.item_ids()).mean, predicted)
        folded = [recommender.recommend(history={0: 5.0}).scores for recommender in (loaded, fitted)]
        assert_array_equal(folded[0], folded[1])

    def test_saved_without_ratings_it_still_predicts(self, fitted: Recommender, tmp_path: Path) -> None:
        if fitted.is_its_ratings:
            with pytest.raises(InvalidParameterError, match="cannot be saved without"):
                save(fitted, tmp_path / "model", with_ratings=False)
            assert not (tmp_path / "model").exists()
            return
        save(fitted, tmp_path / "model", with_ratings=False)
        loaded = load(tmp_path / "model", models=[type(fitted)])
        if not self.keeps_users:
            new_users = fitted.predict(["nobody", "nobody"], [2, 3]).mean
            np.testing.assert_allclose(loaded.predict([0, 1], [2, 3]).mean, new_users, rtol=1e-5)
            assert loaded.recommend([0]).cold[0]
            return
        assert_array_equal(loaded.predict([0, 1], [2, 3]).mean, fitted.predict([0, 1], [2, 3]).mean)
        assert not loaded.recommend([0]).cold[0]

    def test_copies_answer_the_same(self, fitted: Recommender, ratings: Ratings) -> None:
        """A pickle is made and read within one program here: never load one that you have not made."""
        expected, folded = fitted.recommend(ratings.users.ids), fitted.recommend(history={0: 5.0})
        for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
            assert other.posterior_ is not fitted.posterior_
            assert_array_equal(other.recommend(ratings.users.ids).item_rows, expected.item_rows)
            assert_array_equal(other.recommend(ratings.users.ids).scores, expected.scores)
            assert_array_equal(other.recommend(history={0: 5.0}).scores, folded.scores)

    def test_asking_changes_nothing(self, fitted: Recommender, ratings: Ratings) -> None:
        """Earlier queries, about any user, do not affect later ones."""
        before = {name: array.copy() for name, array in fitted.posterior_.arrays().items()}
        first = fitted.recommend([0, 1], 3)
        fitted.recommend([2], history={0: 5.0}, popularity_damping=0.5)
        fitted.predict([3], [4])
        assert_array_equal(fitted.recommend([0, 1], 3).scores, first.scores)
        for name, array in fitted.posterior_.arrays().items():
            assert_array_equal(array, before[name])

    def test_threads_that_ask_do_not_disturb_one_another(self, fitted: Recommender, ratings: Ratings) -> None:
        users = ratings.users.ids[:8].to_list()
        expected = [fitted.recommend([user], 3).scores for user in users]
        fresh = copy.deepcopy(fitted)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda user: fresh.recommend([user], 3).scores, users))
        for one, other in zip(found, expected, strict=True):
            assert_array_equal(one, other)

    def test_a_history_of_unknown_items_warns_and_names_them(self, fitted: Recommender) -> None:
        """The remark is also part of the answer."""
        with pytest.warns(UserWarning, match="nowhere"):
            ranking = fitted.recommend(history={"nowhere": 5.0, 1: 4.0})
        assert len(ranking.remarks) == 1
        assert "nowhere" in ranking.remarks[0]
        assert fitted.recommend([0]).remarks == ()

    # Taste

    def test_checkerboard(self) -> None:
        """Everyone's best unseen item is known exactly."""
        if not self.is_personal:
            pytest.skip("a model without tastes cannot know")
        size = 12
        ranking = self.make(seed=1).fit(self.board(size)).recommend(range(size), 1)
        assert ranking.of(0).height == 1
        assert ranking.item_ids.to_list() == list(range(size))


class OneClassConformance(RecommenderConformance):
    """Conformance tests of implicit models: values are counts, and there are no negative ratings."""

    predicts_ratings = False
    keeps_users = False

    @pytest.fixture
    def ratings(self) -> Ratings:
        drawn = tastes(40, 30, density=0.5, rng=generator(3))[0]
        chosen = drawn.take(np.flatnonzero(drawn.values > 3))
        return dataclasses.replace(chosen, values=np.ceil(chosen.values - 2).astype(np.float32))

    def board(self, size: int) -> Ratings:
        both = checkerboard(size)
        return both.take(np.flatnonzero(both.values == 5))

    @pytest.mark.parametrize("value", [0.0, -1.0])
    def test_what_was_not_chosen_is_refused(self, fitted: Recommender, ratings: Ratings, value: float) -> None:
        wrong = Ratings.from_arrays([1, 1], ["a", "b"], [1.0, value])
        with pytest.raises(DataError, match="not above 0"):
            self.make(seed=1).fit(wrong)
        item = ratings.items.ids[0]
        with pytest.raises(InvalidParameterError, match="not|above 0"):
            fitted.recommend(history={item: value})
