"""Searches in trees, step by step: which items are looked at, in which order."""

from __future__ import annotations

import heapq

import numpy as np

PANEL = 16


def scaled(query):
    """Of length 1, as the trees have it."""
    length = np.sqrt((query.astype(np.float64) ** 2).sum())
    return (query / length if length > 0 else np.zeros(len(query))).astype(np.float32)


def forest_leaves(forest, query):
    """The items of one leaf after another, nearest first by the splits on the way; of two as near the lower node."""
    point = np.append(scaled(query), np.float32(0))
    n_trees, n_nodes = forest.built_.dimensions.shape
    members = forest.built_.members.reshape(n_trees, -1, forest.leaf_size)
    queue = []

    def leaf(tree, node, beyond):
        while forest.built_.branches[node] >= 0:
            distance = point[forest.built_.dimensions[tree, node]] - forest.built_.thresholds[tree, node]
            near, far = node + 1, int(forest.built_.branches[node])
            if distance >= 0:
                near, far = far, near
            heapq.heappush(queue, (beyond + distance * distance, tree * n_nodes + far))
            node = near
        found = members[tree, -1 - forest.built_.branches[node]]
        return found[found >= 0].tolist()

    for tree in range(n_trees):
        yield leaf(tree, 0, np.float32(0))
    while queue:
        beyond, node = heapq.heappop(queue)
        yield leaf(node // n_nodes, node % n_nodes, beyond)


def cluster_leaves(tree, query):
    """The items of one leaf after another, nearest cluster first."""
    point = np.append(scaled(query), np.float32(1))
    centres = tree.built_.centres.reshape(-1, len(point), PANEL).transpose(0, 2, 1).reshape(-1, len(point))
    queue = [(0.0, 0)]
    while queue:
        _, node = heapq.heappop(queue)
        while tree.built_.nodes[node, 1] > 0:
            first, n = tree.built_.nodes[node]
            below = sorted((-float(centres[row] @ point), row) for row in range(first * PANEL, first * PANEL + n))
            for other in below[1:]:
                heapq.heappush(queue, other)
            node = below[0][1]
        first, n = tree.built_.nodes[node]
        yield tree.built_.members[first * PANEL : first * PANEL - n].tolist()


def looked_at(leaves, budget, forbidden=()):
    """Items of leaves until so many that may be found have been seen, each once."""
    seen, looked = set(forbidden), []
    for leaf in leaves:
        for item in leaf:
            if item not in seen:
                seen.add(item)
                looked.append(item)
        if len(looked) >= budget:
            break
    return looked


def best(vectors, query, items, k):
    """Of these items those with the largest inner products, best first, of two as good the lower one."""
    rows = np.sort(np.asarray(items, np.int64))
    scores = vectors[rows].astype(np.float64) @ query.astype(np.float64)
    return rows[np.lexsort((rows, -scores))][:k].tolist()
