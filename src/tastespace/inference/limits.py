"""What is good enough of chains, each limit with its reason."""

from __future__ import annotations

# A half-chain at this limit has 2.3 effective draws: it has hardly moved away from where it was, and nobody can say
# whether it is stuck or slow. The usual 1.01 or 1.05 wants 100 or 10 in each half, many hundreds of draws in all, where
# a recommender keeps 50 to 100: its predictions would be no better for them (see LARGEST_ERROR).
LARGEST_RHAT = 1.2
# Of so many the mean is known to a fifth of the standard deviation, the standard deviation itself to a seventh.
FEWEST_EFFECTIVE = 25
# Monte Carlo error of predictions, root mean square, in units of the noise sd, or of the spread of predictions where a
# model has no noise sd. It adds to noise and belief in the square, so that 0.15 makes the RMSE at most 1.1 % larger
# than endlessly many draws would. In truth it is less: beside the noise there is the uncertainty of the belief, and
# answers average expectations of users given items, which scatter less than the drawn users that are watched. BPMF as
# it comes is at 0.05 to 0.1 on MovieLens 100K and movielens-demo.
LARGEST_ERROR = 0.15
# Of the pairs, those with a large R-hat. By mere chance independent draws give it to one pair in eleven at 10 draws in
# each of two chains, and to one in three hundred at 25.
LARGEST_SHARE = 0.25
# The share of pairs that a wanted error is about. The rest are often a few pairs of which ratings tell two stories:
# chains go from one to the other now and then, and no number of draws that anybody would take makes their mean exact.
MOST_PAIRS = 0.9
# What the noise sd may differ between halves of chains once its R-hat is large. Where it still travelled in trials, it
# had about twice as far to go; 10 % of the noise sd is 3 points of coverage of a 90 % interval.
LARGEST_MOVE = 0.05
# Halves of fewer than 5 draws have no lags to estimate correlations from: whatever was drawn, the ESS would be
# excellent. A single chain has two halves only, and needs longer ones for an R-hat that means anything.
FEWEST_A_CHAIN, FEWEST_IN_ALL = 10, 20
FEWEST_FOR_RHAT = 4  # two in each half
