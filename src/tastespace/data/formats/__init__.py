"""File formats: how ratings are laid out in files, read and written."""
