"""Neighbourhood models: what a user gave to similar items, or what similar users gave to an item.

    rating_ij = baseline_ij + sum_k s_k e_k / (sum_k s_k + damping)

The baseline is mean + user bias + item bias, e_k the residual of a rating. Item k-NN sums over the items most similar
to item j that user i has rated, user k-NN over the users most similar to user i who have rated item j; s is how similar
they are. Both sums have at most `n_neighbours` terms. Without neighbours, the prediction is the baseline.

All is in `knn.py`. May import `models/base`, the files of `models/`, and what is below.
"""
