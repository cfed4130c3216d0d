"""For authors of new models and samplers: conformance tests, tests of samplers, and data with known answers."""
