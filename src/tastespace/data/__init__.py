"""What was observed: ratings, where they come from, and how they are split."""
