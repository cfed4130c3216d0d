"""Settings that no model learns from its ratings, searched on a part of them that is held out."""
