"""For authors of new parts: what every implementation of a role must pass, and data with known answers."""
