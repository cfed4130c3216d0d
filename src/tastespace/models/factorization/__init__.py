"""Users and items as points; a rating is an inner product."""
