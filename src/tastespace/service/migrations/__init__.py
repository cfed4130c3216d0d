"""The history of the ratings database, for Alembic."""
