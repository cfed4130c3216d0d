"""For authors of new models and samplers: conformance tests, tests of samplers, and data with known answers.

Begin with `conformance.py`, the suite to inherit from; `geweke.py` and `calibration.py` prove samplers, `toys.py` makes
ratings. May import any room that models are made of; no other room imports this one.
"""
