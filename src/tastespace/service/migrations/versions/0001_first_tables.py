"""The first tables: people, ratings, answered requests, imports, activations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "people",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True)),
    )
    op.create_table(
        "ratings",
        sa.Column("user_id", sa.String, primary_key=True),
        sa.Column("item_id", sa.String, primary_key=True),
        sa.Column("value", sa.Double, nullable=False),
        sa.Column("rated_at", sa.DateTime(timezone=True)),
    )
    op.create_table(
        "answered",
        sa.Column("client", sa.String, primary_key=True),
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "imports",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("n_ratings", sa.BigInteger, nullable=False),
        sa.Column("imported_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "activations",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("version", sa.String, nullable=False),
        sa.Column("reason", sa.String, nullable=False),
        sa.Column("activated_at", sa.DateTime(timezone=True), nullable=False),
    )


def downgrade() -> None:
    for name in ("activations", "imports", "answered", "ratings", "people"):
        op.drop_table(name)
