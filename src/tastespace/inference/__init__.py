"""How belief is computed: transitions and the loops that drive them. Knows no model."""
