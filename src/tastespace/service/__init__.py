"""A recommender as a service: it only asks (fold-in, index, policy), and never trains while somebody waits."""
