"""The HTTP service: it asks a fitted model (fold-in, index, policy), and never trains in a request."""
