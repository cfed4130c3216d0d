"""Samplers that are usable alone: each file has an `init` and a `step` on a log density; they know no model."""
