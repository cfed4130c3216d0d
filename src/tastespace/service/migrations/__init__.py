"""The history of the ratings database, for Alembic.

Begin with `versions/0001_first_tables.py`; a file there that has been released is never changed. `env.py` is what
Alembic runs, and may import the tables of `store.py`.
"""
