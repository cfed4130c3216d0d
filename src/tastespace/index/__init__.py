"""Nearest neighbours: finding the best items for a query vector."""

from __future__ import annotations

from typing import Any

from tastespace.index.growing import Growing
from tastespace.index.reduction import Reduced
from tastespace.index.structures.exact import Exact
from tastespace.index.structures.graph import Graph
from tastespace.index.structures.inverted_file import InvertedFile
from tastespace.index.structures.kd_forest import KdForest
from tastespace.index.structures.kmeans_tree import KMeansTree
from tastespace.index.voting import Vote

# The structures by name: what an artifact that has one says, and what `tastespace index` chooses from.
INDEXES: dict[str, type[Any]] = {
    "exact": Exact,
    "inverted-file": InvertedFile,
    "kd-forest": KdForest,
    "kmeans-tree": KMeansTree,
    "graph": Graph,
    "growing": Growing,
    "reduced": Reduced,
    "vote": Vote,
}
