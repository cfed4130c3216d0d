"""Which model, which settings: comparing models, tuning their settings, and choosing the number of factors.

Begin with `trials`, the one runner under `compare_models`, `tune` and `select_rank`. This room may import evaluation
and what is below it; what may be searched of a model, and which ratings suit it, is declared by the model.
"""
