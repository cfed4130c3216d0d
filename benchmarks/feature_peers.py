"""Other libraries with the same features: myFM, SMURFF's Macau and LightFM.

myFM gets a relation block for each side: who it is, and the bag, as two groups; what is cold has neither. Regression
and ordered probit. Macau: a normal prior for users, features for items with its direct solver, its adaptive noise,
ratings centred by us. LightFM: WARP on ratings of 4 and more, items by their features and, where they have ratings, an
indicator of their own; or by features alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from tastespace import Ratings, Split
from tastespace.data.csr import CSR
from tastespace.models.factorization.priors.design import bag_of

os.environ.setdefault("TQDM_DISABLE", "1")  # progress bars
LIKED = 4
LIGHTFM_FACTORS, LIGHTFM_EPOCHS, LIGHTFM_RATE = 64, 30, 0.05


@dataclass(frozen=True)
class MyFM:
    """A factorization machine on users, items and their bags."""

    train: Ratings
    n_factors: int
    is_ordinal: bool = False
    has_bags: bool = True

    def fit(self, sweeps: int, kept: int) -> Any:
        import myfm

        blocks = self._blocks(self.train.user_rows, self.train.item_rows)
        settings = {"X_rel": blocks, "n_iter": sweeps, "n_kept_samples": kept, "group_shapes": self.groups}
        if not self.is_ordinal:
            values = self.train.values.astype(np.float64)
            return myfm.MyFMGibbsRegressor(self.n_factors, random_seed=0).fit(None, values, **settings)
        places = np.searchsorted(self.levels, self.train.values)
        return myfm.MyFMOrderedProbit(self.n_factors, random_seed=0).fit(None, places, **settings)

    def predict(self, model: Any, asked: Ratings) -> np.ndarray:
        """The expected rating, averaged over all draws that are kept."""
        blocks = self.asked(asked)
        if not self.is_ordinal:
            return np.asarray(model.predict(None, blocks))
        return np.asarray(model.predict_proba(None, blocks) @ self.levels)

    def predict_each(self, model: Any, asked: Ratings) -> np.ndarray:
        """The same of every draw of the regression: draws x pairs."""
        nothing, blocks = sp.csr_matrix((len(asked), 0)), self.asked(asked)
        return np.stack([draw.predict_score(nothing, blocks) for draw in model.predictor_.samples])

    def asked(self, asked: Ratings) -> list[Any]:
        train = self.train
        return self._blocks(train.users.rows_of(asked.user_ids()), train.items.rows_of(asked.item_ids()))

    @property
    def levels(self) -> np.ndarray:
        return np.unique(self.train.values).astype(np.float64)

    @property
    def groups(self) -> list[int]:
        users, items = self.train.n_users, self.train.n_items
        return [users, items, items, users] if self.has_bags else [users, items]

    def _blocks(self, user_rows: np.ndarray, item_rows: np.ndarray) -> list[Any]:
        by_user, by_item = self.train.by_user, self.train.by_item
        users, items = self.train.n_users, self.train.n_items
        return [self._block(by_user, items, user_rows), self._block(by_item, users, item_rows)]

    def _block(self, pairs: CSR, n_others: int, rows: np.ndarray) -> Any:
        import myfm

        n = len(pairs)
        known = sp.hstack([sp.identity(n), bag_of(pairs, n_others)] if self.has_bags else [sp.identity(n)])
        whole = sp.vstack([known, sp.csr_matrix((1, known.shape[1]))], format="csr")  # the last row: nothing known
        return myfm.RelationBlock(np.where(rows < 0, n, rows).tolist(), whole)


def macau(train: Ratings, features: sp.csr_matrix, asked: Split, n_factors: int, warmup: int, sweeps: int) -> Any:
    """Mean and 90 % interval of each test rating, with the noise.

    `features` are those of the training items and, below, of the test items in their order.
    """
    import smurff

    test = asked.test
    n_users, n_items = train.n_users + 1, features.shape[0]
    users = train.users.rows_of(test.user_ids()) % n_users  # -1, a new user, to the last
    items = train.n_items + test.item_rows
    matrix = sp.coo_matrix(
        (train.values.astype(np.float64) - train.mean, (train.user_rows, train.item_rows)), shape=(n_users, n_items)
    )
    session = smurff.TrainSession(
        priors=["normal", "macau"],
        num_latent=n_factors,
        nsamples=sweeps,
        seed=1,
        num_threads=1,
        verbose=0,
    )
    session.setBurnin(warmup)
    session.setTrain(matrix, smurff.AdaptiveNoise())
    session.addSideInfo(1, features.astype(np.float64).tocsr(), direct=True)
    session.setTest(sp.coo_matrix((np.ones(len(test)), (users, items)), shape=(n_users, n_items)))
    session.init()
    while session.step() is not None:
        pass
    found = np.full(len(test), np.nan)
    places = {pair: place for place, pair in enumerate(zip(users.tolist(), items.tolist(), strict=True))}
    for prediction in session.getTestPredictions():
        found[places[tuple(int(at) for at in prediction.coords)]] = prediction.pred_avg
    return train.mean + found


def lightfm_scores(train: Ratings, features: sp.csr_matrix, user_rows: np.ndarray, *, has_own: bool) -> np.ndarray:
    """The scores of all items for some users; items beyond the training items have their features alone."""
    from lightfm import LightFM

    n_items = features.shape[0]
    own = sp.identity(train.n_items, format="csr", dtype=np.float32)
    own = sp.vstack([own, sp.csr_matrix((n_items - train.n_items, train.n_items), dtype=np.float32)])
    described = sp.csr_matrix(features, dtype=np.float32)
    if has_own:
        described = sp.hstack([own, described], format="csr")
    described.indices, described.indptr = described.indices.astype(np.int32), described.indptr.astype(np.int32)
    liked = train.values >= LIKED
    shape = (train.n_users, n_items)
    pairs = sp.coo_matrix(
        (np.ones(int(liked.sum()), np.float32), (train.user_rows[liked], train.item_rows[liked])), shape=shape
    )
    model = LightFM(LIGHTFM_FACTORS, loss="warp", learning_rate=LIGHTFM_RATE, random_state=0)
    model.fit(pairs, item_features=described, epochs=LIGHTFM_EPOCHS, num_threads=1)
    bias, items = model.get_item_representations(described)
    _, users = model.get_user_representations()
    return np.asarray(users[user_rows] @ items.T + bias)


def dropout_net(known: Any, cold: Any, factors: np.ndarray, *, quick: bool) -> np.ndarray:
    """Factors of cold items by a network of one hidden layer, for which factors of items are left out at random."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.neural_network import MLPRegressor

    directions = TruncatedSVD(20 if quick else 300, random_state=0).fit(known)
    texts, new = directions.transform(known), directions.transform(cold)
    texts, new = texts / texts.std(), new / texts.std()
    scale = factors.std()
    own = factors / scale
    rng = np.random.default_rng(0)
    net = MLPRegressor(hidden_layer_sizes=(200,), learning_rate_init=1e-3, random_state=0)
    for _ in range(1 if quick else 20):
        left_out = rng.random(len(own)) < 0.5
        shown = np.where(left_out[:, None], 0, own)
        order = rng.permutation(len(own))
        net.partial_fit(np.hstack([shown, texts])[order], own[order])
    return np.asarray(scale * net.predict(np.hstack([np.zeros((len(new), own.shape[1])), new])))
