"""The number of factors: by columns that shrink, or by reversible jumps."""
