"""What autoencoders of ratings conclude: codes of one side, and what the rows of the other side make of them.

    rating_ij = mean + sd (c_i + (w_i + w) . h_j)        items are encoded: codes h_j, users are rows of the decoder
    rating_ij = mean + sd (d_j + (w_j + w) . h_i)        users are encoded, by their own ratings

Both are inner products, so lists can be searched by an index. A new user is placed by their ratings: where users are
encoded by a forward pass, where items are by the ridge regression on the codes that is also the last step of training.
Several members are averaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tastespace import _native
from tastespace.arrays import FloatArray, FloatMatrix, OffsetArray
from tastespace.data.csr import CSR
from tastespace.distributions.conformal import ConformalErrors
from tastespace.errors import NonFiniteStateError
from tastespace.models.base.posterior import Belief, Pairs, People, Posterior, PredictiveDistribution, Queries
from tastespace.networks.autoencoder import Layer
from tastespace.networks.masked import encode


@dataclass(frozen=True)
class Units:
    """The mean and the sd of the training ratings: networks are trained on standardized ratings."""

    mean: float
    sd: float

    @classmethod
    def of(cls, mean: float, sd: float) -> Units:
        return cls(mean, sd if sd > 0 else 1.0)

    def standardized(self, ratings: CSR) -> CSR:
        values = (ratings.values - np.float32(self.mean)) / np.float32(self.sd)
        return CSR(ratings.offsets, ratings.columns, values)


@dataclass(frozen=True, eq=False)
class Placed:
    """People as vectors, in units of the network."""

    vectors: FloatMatrix
    bias: FloatArray
    points: FloatMatrix  # the same less what all people have in common


@dataclass(frozen=True, eq=False)
class EncodedItems:
    """Items have codes, and users are rows of a decoder."""

    codes: FloatMatrix  # items x codes
    shared: FloatArray  # codes
    users: FloatMatrix  # users x codes: deviations from what is shared
    user_bias: FloatArray
    strength: float
    damping: float

    @classmethod
    def fitted(
        cls, codes: FloatMatrix, shared: FloatArray, ratings: CSR, strength: float, damping: float, threads: int
    ) -> EncodedItems:
        """Place all users by their (standardized) ratings."""
        nobody = np.zeros((0, codes.shape[1]), np.float32)
        empty = cls(codes, shared, nobody, np.zeros(0, np.float32), strength, damping)
        users, bias = empty.fold_in(ratings, threads)
        return cls(codes, shared, users, bias, strength, damping)

    def fold_in(self, ratings: CSR, threads: int) -> tuple[FloatMatrix, FloatArray]:
        """The minimum of the training loss in the row and the bias of each user, given the codes: ridge regression."""
        n_rows, width = len(ratings), self.codes.shape[1]
        users, bias = np.empty((n_rows, width), np.float32), np.empty(n_rows, np.float32)
        failed = _native.solve_rows(
            *ratings.parts,
            self.codes,
            prior_precision=np.eye(width, dtype=np.float32) * np.float32(self.strength),
            prior_linear=np.zeros((1, width), np.float32),
            out=users,
            other_bias=self.shared_scores,
            out_bias=bias,
            bias_precision=self.damping,
            threads=threads,
        )
        if failed >= 0:
            raise NonFiniteStateError(
                f"the ratings of user {failed} could not be fitted; expected finite ratings of ordinary size"
            )
        return users, bias

    @cached_property
    def shared_scores(self) -> FloatArray:
        """What every item gets from everybody."""
        return np.asarray(self.codes @ self.shared, np.float32)

    @property
    def items(self) -> FloatMatrix:
        return np.asarray(np.hstack([self.codes, self.shared_scores[:, None]]), np.float32)

    @property
    def item_points(self) -> FloatMatrix:
        return np.asarray(self.codes - self.codes.mean(axis=0), np.float32)

    def place(self, people: People, units: Units, threads: int) -> Placed:
        is_known = people.rows >= 0
        known = np.maximum(people.rows, 0)
        users, bias = self.users[known], self.user_bias[known]
        users[~is_known], bias[~is_known] = 0, 0
        new = np.flatnonzero(people.is_new).astype(np.int32)
        if len(new):
            users[new], bias[new] = self.fold_in(units.standardized(people.history.take(new)), threads)
        return Placed(users, bias, users)

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "codes": self.codes,
            "shared": self.shared,
            "users": self.users,
            "user_bias": self.user_bias,
            "strengths": np.array([self.strength, self.damping]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> EncodedItems:
        strength, damping = (float(value) for value in arrays["strengths"])
        users, bias = arrays["users"], arrays["user_bias"]
        return cls(arrays["codes"], arrays["shared"], users, bias, strength, damping)


@dataclass(frozen=True, eq=False)
class EncodedUsers:
    """Users are encoded by their ratings, and items are rows of a decoder."""

    layers: tuple[Layer, ...]
    decoder: FloatMatrix  # items x codes
    item_bias: FloatArray

    @property
    def items(self) -> FloatMatrix:
        return np.asarray(np.hstack([self.decoder, self.item_bias[:, None]]), np.float32)

    @property
    def item_points(self) -> FloatMatrix:
        return np.asarray(self.decoder - self.decoder.mean(axis=0), np.float32)

    def place(self, people: People, units: Units, threads: int) -> Placed:
        codes = encode(self.layers, units.standardized(people.history))
        nothing = encode(self.layers, CSR.empty(1))
        return Placed(codes, np.zeros(len(codes), np.float32), codes - nothing)

    def arrays(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"decoder": self.decoder, "item_bias": self.item_bias}
        for place, layer in enumerate(self.layers):
            arrays |= {f"weights_{place}": layer.weights, f"bias_{place}": layer.bias}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> EncodedUsers:
        n_layers = sum(name.startswith("weights_") for name in arrays)
        layers = (Layer(arrays[f"weights_{at}"], arrays[f"bias_{at}"], "sigmoid") for at in range(n_layers))
        return cls(tuple(layers), arrays["decoder"], arrays["item_bias"])


@dataclass(frozen=True, eq=False)
class CodesBelief(Belief):
    """People as vectors of all members: points, with intervals calibrated on held-out ratings."""

    posterior: CodesPosterior
    vectors: FloatMatrix
    offsets: FloatArray
    points: FloatMatrix
    counts: OffsetArray

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def queries(self) -> Queries:
        return Queries(self.vectors, self.offsets, lambda: self.posterior.item_vectors)

    @property
    def embeddings(self) -> FloatMatrix:
        return self.points

    def mean(self, pairs: Pairs) -> FloatArray:
        """The rating of each pair; an unknown item is an average one."""
        found = np.empty(len(pairs), np.float32)
        unknown = pairs.items < 0
        found[~unknown] = self.queries.of_pairs(Pairs(pairs.rows[~unknown], pairs.items[~unknown]))
        rows = pairs.rows[unknown]
        found[unknown] = self.vectors[rows] @ self.posterior.average_item + self.offsets[rows]
        return found

    def predictive(self, pairs: Pairs) -> PredictiveDistribution | None:
        errors = self.posterior.errors
        if errors is None:
            return None
        return PredictiveDistribution(None, errors.ratings(self.mean(pairs), self.counts[pairs.rows]))


@dataclass(frozen=True, eq=False)
class CodesPosterior(Posterior):
    """The average of several networks."""

    units: Units
    members: tuple[EncodedItems | EncodedUsers, ...]
    errors: ConformalErrors | None  # of held-out ratings; None if there were too few

    MEMBERS: ClassVar = (EncodedItems, EncodedUsers)

    @cached_property
    def item_vectors(self) -> FloatMatrix:
        return np.ascontiguousarray(np.hstack([member.items for member in self.members]), np.float32)

    @cached_property
    def average_item(self) -> FloatArray:
        return np.asarray(self.item_vectors.mean(axis=0, dtype=np.float64), np.float32)

    @cached_property
    def embeddings(self) -> FloatMatrix:
        return np.ascontiguousarray(np.hstack([member.item_points for member in self.members]), np.float32)

    @property
    def keeps_users(self) -> bool:  # type: ignore[override]
        return isinstance(self.members[0], EncodedItems)

    def believe(self, people: People, threads: int) -> CodesBelief:
        scale = np.float32(self.units.sd / len(self.members))
        placed = [member.place(people, self.units, threads) for member in self.members]
        ones = np.ones((len(people), 1), np.float32)
        vectors = np.hstack([part for each in placed for part in (each.vectors, ones)]) * scale
        offsets = sum(each.bias for each in placed) * scale + np.float32(self.units.mean)
        points = np.hstack([each.points for each in placed])
        return CodesBelief(self, vectors, np.asarray(offsets, np.float32), points, people.history.counts)

    def arrays(self) -> Mapping[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {
            "units": np.array([self.units.mean, self.units.sd]),
            "side": np.array([self.MEMBERS.index(type(self.members[0]))], np.int32),
        }
        for place, member in enumerate(self.members):
            arrays |= {f"member_{place}_{name}": array for name, array in member.arrays().items()}
        return arrays if self.errors is None else arrays | self.errors.arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> CodesPosterior:
        kind = cls.MEMBERS[int(arrays["side"][0])]
        members: list[EncodedItems | EncodedUsers] = []
        while parts := _part_of(arrays, f"member_{len(members)}_"):
            members.append(kind.from_arrays(parts))
        units = Units(*(float(value) for value in arrays["units"]))
        return cls(units, tuple(members), ConformalErrors.from_arrays(arrays))


def _part_of(arrays: Mapping[str, NDArray[Any]], start: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
