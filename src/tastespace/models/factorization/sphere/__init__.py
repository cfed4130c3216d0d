"""Items on a sphere: all vectors as long, so that the best item for a user is the nearest point."""
