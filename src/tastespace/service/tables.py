"""What the ratings database has: the tables, which migrations make."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, DateTime, Double, Integer, MetaData, String, Table, Text

metadata = MetaData()

people = Table(
    "people",
    metadata,
    Column("id", String, primary_key=True),
    Column("version", BigInteger, nullable=False),  # goes up with every change of what is known of him
    Column("deleted_at", DateTime(timezone=True)),  # what a model learned from before then must not be used of him
)

ratings = Table(
    "ratings",
    metadata,
    Column("user_id", String, primary_key=True),
    Column("item_id", String, primary_key=True),
    Column("value", Double, nullable=False),
    Column("rated_at", DateTime(timezone=True)),  # unknown for those that came with a model
)

answered = Table(  # requests that must not be carried out twice
    "answered",
    metadata,
    Column("client", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("fingerprint", String, nullable=False),  # of what was asked
    Column("body", Text, nullable=False),  # of what was answered
    Column("answered_at", DateTime(timezone=True), nullable=False, index=True),  # those of yesterday are dropped
)

imports = Table(
    "imports",
    metadata,
    Column("id", Integer, primary_key=True),  # 1: ratings of a model are taken over once
    Column("fingerprint", String, nullable=False),
    Column("n_ratings", BigInteger, nullable=False),
    Column("imported_at", DateTime(timezone=True), nullable=False),
)

activations = Table(  # which version of the model answers: that of the last row
    "activations",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("version", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("activated_at", DateTime(timezone=True), nullable=False),
)
