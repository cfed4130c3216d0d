"""The globe shows points where they are."""

from __future__ import annotations

import numpy as np
import pytest

from tastespace.errors import InvalidParameterError

pytest.importorskip("matplotlib", reason="needs the extra plot: pip install 'tastespace[plot]'")
from matplotlib.figure import Figure

from tastespace.report.plotting import draw_globe


@pytest.fixture
def axes():
    return Figure().subplots()


def dots(axes):
    """Those behind, and those before."""
    return [np.asarray(collection.get_offsets()) for collection in axes.collections]


def test_what_is_before_and_what_is_behind(axes):
    """Looking along -x from afar: y is to the right, z is up, and x < 0 is behind."""
    draw_globe(axes, [[2.0, 0, 0], [0, 2.0, 0], [-1.2, 0, 1.6]], radius=2.0, towards=(1, 0, 0))
    behind, before = dots(axes)
    np.testing.assert_allclose(behind, [[0, 0.8]], atol=1e-12)
    np.testing.assert_allclose(before, [[0, 0], [1, 0]], atol=1e-12)


def test_the_shade_is_darkest_where_the_density_is_highest(axes):
    draw_globe(axes, np.eye(3), log_density=lambda x: 5 * x[..., 2], towards=(1, 0, 0))
    shade = axes.images[0].get_array()
    assert np.ma.getmaskarray(shade)[0, 0]  # a corner is no part of the globe
    assert shade[-20, 120] > 0.4 > 0.01 > shade[20, 120]


def test_a_path_has_its_beginning(axes):
    draw_globe(axes, np.eye(3), path=2, towards=(1, 1, 1))
    assert len(dots(axes)[1]) == 1
    assert dots(axes)[2].shape == (1, 2)


def test_a_pole_can_be_looked_at(axes):
    draw_globe(axes, np.eye(3), towards=(0, 0, 1))
    assert np.isfinite(dots(axes)[1]).all()


def test_bad_input_says_what_is_wrong(axes):
    with pytest.raises(InvalidParameterError, match=r"the shape \(2, 2\); expected n x 3"):
        draw_globe(axes, np.eye(2))
    with pytest.raises(InvalidParameterError, match="expected a direction"):
        draw_globe(axes, np.eye(3), towards=(0, 0, 0))
