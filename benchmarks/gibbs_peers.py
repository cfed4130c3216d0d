"""SMURFF and myFM, asked for the same thing: chains of Gibbs sweeps, and the average prediction of those that count.

Both learn the noise, as tastespace does. SMURFF: BPMF with a normal prior a side, its adaptive noise (a sampled
precision with an upper limit; its default, a fixed precision of 5, does badly), ratings centred by us, since it
does not. myFM: a factorization machine on the indicators of user and item, so that a mean and biases are part of the
model; once with its defaults, which have one set of hyper-parameters for users and items together, and once "grouped",
with a set each as the other two have. All else as it comes. Both compute in double precision.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix, hstack

from tastespace import Ratings, Split

os.environ.setdefault("TQDM_DISABLE", "1")  # progress bars of both


@dataclass(frozen=True)
class Schedule:
    """How long chains run: of the sweeps after the warm-up every so many is a draw."""

    chains: int
    warmup: int
    draws: int  # of each chain
    thin: int = 1

    @property
    def sweeps(self) -> int:
        """Those of one chain that come after its warm-up."""
        return self.draws * self.thin


@dataclass(frozen=True)
class Cells:
    """The test ratings in rows of the training part; -1 is cold."""

    users: np.ndarray
    items: np.ndarray

    @classmethod
    def of(cls, parts: Split) -> Cells:
        train, test = parts.train, parts.test
        return cls(train.users.rows_of(test.user_ids()), train.items.rows_of(test.item_ids()))


class Smurff:
    """A session a chain."""

    name = "SMURFF"

    def __init__(self, train: Ratings) -> None:
        import smurff  # here, where nothing is timed

        self.library = smurff
        # One row and one column more, without ratings: what is cold is drawn from the prior there.
        self.shape = (train.n_users + 1, train.n_items + 1)
        self.mean = train.mean
        centred = train.values.astype(np.float64) - train.mean
        self.matrix = coo_matrix((centred, (train.user_rows, train.item_rows)), shape=self.shape)

    def session(self, n_factors: int, warmup: int, sweeps: int, seed: int) -> Any:
        session = self.library.TrainSession(num_latent=n_factors, nsamples=sweeps, seed=seed, num_threads=1, verbose=0)
        session.setBurnin(warmup)
        session.setTrain(self.matrix, self.library.AdaptiveNoise())
        return session

    def run(self, n_factors: int, sweeps: int) -> None:
        """Sweeps alone, nothing to predict."""
        session = self.session(n_factors, sweeps - 1, 1, 0)
        session.init()
        while session.step() is not None:
            pass

    def draws(self, n_factors: int, warmup: int, sweeps: int, seed: int, cells: Cells) -> np.ndarray:
        """Predictions of each sweep after the warm-up, sweeps x cells."""
        users, items = cells.users % self.shape[0], cells.items % self.shape[1]  # -1 to the last
        places, where = np.unique(users * self.shape[1] + items, return_inverse=True)
        asked = coo_matrix((np.ones(len(places)), np.divmod(places, self.shape[1])), shape=self.shape)
        session = self.session(n_factors, warmup, sweeps, seed)
        session.setTest(asked)
        session.init()
        while session.step() is not None:
            pass
        found = np.full((sweeps, len(places)), np.nan)
        for prediction in session.getTestPredictions():
            user, item = prediction.coords
            found[:, np.searchsorted(places, user * self.shape[1] + item)] = prediction.pred_all
        assert not np.isnan(found).any()
        return self.mean + found[:, where]


class MyFM:
    """A regressor a chain."""

    name = "myFM"
    is_grouped = False

    def __init__(self, train: Ratings) -> None:
        import myfm  # here, where nothing is timed

        self.library = myfm
        self.sides = [train.n_users, train.n_items]
        self.values = train.values.astype(np.float64)
        self.rows = self.indicators(Cells(train.user_rows, train.item_rows))

    def indicators(self, cells: Cells) -> csr_matrix:
        """A one for the user and a one for the item; what is cold has none."""
        return hstack(
            [_one_hot(rows, n) for rows, n in zip((cells.users, cells.items), self.sides, strict=True)], "csr"
        )

    def fit(self, n_factors: int, sweeps: int, kept: int, seed: int) -> Any:
        model = self.library.MyFMGibbsRegressor(n_factors, random_seed=seed)
        groups = self.sides if self.is_grouped else None
        return model.fit(self.rows, self.values, n_iter=sweeps, n_kept_samples=kept, group_shapes=groups)

    def run(self, n_factors: int, sweeps: int) -> None:
        """Sweeps alone, nothing to predict."""
        self.fit(n_factors, sweeps, 1, 0)

    def draws(self, n_factors: int, warmup: int, sweeps: int, seed: int, cells: Cells) -> np.ndarray:
        """Predictions of each sweep after the warm-up, sweeps x cells."""
        model = self.fit(n_factors, warmup + sweeps, sweeps, seed)
        asked = self.indicators(cells)
        return np.stack([draw.predict_score(asked, []) for draw in model.predictor_.samples])


class GroupedMyFM(MyFM):
    """With hyper-parameters for users and others for items."""

    name = "myFM, grouped"
    is_grouped = True


PEERS = (Smurff, MyFM, GroupedMyFM)


def quality(peer: Smurff | MyFM, parts: Split, n_factors: int, schedule: Schedule, seed: int = 0) -> dict[str, Any]:
    """Test RMSE of the mean over all chains: of the draws, and of every sweep after the warm-up."""
    cells = Cells.of(parts)
    of_draws, of_sweeps = np.zeros((2, len(parts.test)))
    for chain in range(schedule.chains):
        predictions = peer.draws(n_factors, schedule.warmup, schedule.sweeps, 100 * seed + chain + 1, cells)
        of_sweeps += predictions.mean(0) / schedule.chains
        of_draws += predictions[schedule.thin - 1 :: schedule.thin].mean(0) / schedule.chains
    return {"rmse": rmse(of_draws, parts), "rmse of all sweeps": rmse(of_sweeps, parts)}


def rmse(predictions: np.ndarray, parts: Split) -> float:
    """Over all test ratings, clipped to the training range."""
    errors = np.clip(predictions, *parts.train.range) - parts.test.values
    return float(np.sqrt(np.mean(errors**2)))


def _one_hot(rows: np.ndarray, n: int) -> csr_matrix:
    known = np.flatnonzero(rows >= 0)
    return csr_matrix((np.ones(len(known)), (known, rows[known])), shape=(len(rows), n))
