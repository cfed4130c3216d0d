"""Linear models: a score is a sum of weights between items, over the items that a user has.

    score_uj = sum_k x_uk B_kj        x_uk = 1 for an item that user u has, 0 for any other

B has no factors: all weights from item to item are learned, and none from an item to itself.

All is in `ease.py`. May import `models/base`, the files of `models/`, and what is below.
"""
