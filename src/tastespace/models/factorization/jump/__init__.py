"""The rank of a factorization by reversible jumps inside simulated annealing (Dey and Jhamb 2018, corrected)."""
