"""The sphere |x| = q: tangents, and the great circles along which points move. The last axis has the coordinates."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from tastespace.arrays import DoubleArray
from tastespace.errors import InvalidParameterError
from tastespace.inference.checks import positive

ON_SPHERE = 1e-6  # how far, as a share of the radius, a point may be off it: single precision is nearer


def checked_on_sphere(position: DoubleArray, radius: float) -> DoubleArray:
    """Positions that belong on the sphere, put there exactly; with a great circle through each."""
    radius = positive("radius", radius)
    if position.shape[-1] < 2:
        raise InvalidParameterError(
            "position has 1 coordinate; expected at least 2: the sphere is two points then, which no great circle "
            "joins: use metropolis.von_mises_fisher"
        )
    lengths = np.linalg.norm(position, axis=-1)
    off = np.abs(lengths / radius - 1)
    if not (off <= ON_SPHERE).all():
        raise InvalidParameterError(
            f"position has the length {lengths.flat[np.argmax(off)]:g}; expected the radius, {radius:g}: "
            "divide by the length, and multiply by the radius"
        )
    return on_sphere(position, radius)


def on_sphere(position: DoubleArray, radius: float) -> DoubleArray:
    """The nearest points of the sphere: takes away what rounding has added to lengths."""
    return np.asarray(position * (radius / np.linalg.norm(position, axis=-1, keepdims=True)))


def projected(vector: DoubleArray, position: DoubleArray, radius: float) -> DoubleArray:
    """The part of a vector that is tangent to the sphere."""
    along = np.sum(vector * position, axis=-1, keepdims=True) / radius**2
    return np.asarray(vector - along * position)


def along_great_circle(
    position: DoubleArray, velocity: DoubleArray, time: float, radius: float
) -> tuple[DoubleArray, DoubleArray]:
    """Position and velocity after some time of free motion: with w = |velocity| / q an angle of w time."""
    speed = np.linalg.norm(velocity, axis=-1, keepdims=True) / radius
    cosine, sine = np.cos(speed * time), np.sin(speed * time)
    # sin(w t) / w is t where nothing moves.
    stretch = np.divide(sine, speed, out=np.full_like(speed, time), where=speed > 0)
    return position * cosine + velocity * stretch, velocity * cosine - position * (speed * sine)


def unit_tangent(position: DoubleArray, radius: float, rng: Generator) -> DoubleArray:
    """A direction along the sphere, all being equally likely."""
    tangent = projected(rng.standard_normal(position.shape), position, radius)
    # Once more: a Gaussian that points almost along the position leaves a short rest, with large rounding errors.
    tangent = projected(tangent, position, radius)
    return np.asarray(tangent / np.linalg.norm(tangent, axis=-1, keepdims=True))
