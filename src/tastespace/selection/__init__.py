"""Which model, which settings: comparing models, tuning their settings, and choosing the number of factors."""
