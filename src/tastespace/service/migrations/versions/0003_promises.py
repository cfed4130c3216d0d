"""What was shown, how ratings turned out, and trials of versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "shown",
        sa.Column("user_id", sa.String, primary_key=True),
        sa.Column("item_id", sa.String, primary_key=True),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("version", sa.String, nullable=False),
        sa.Column("shown_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_index("ix_shown_shown_at", "shown", ["shown_at"])
    op.create_table(
        "judged",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("user_id", sa.String, nullable=False),
        sa.Column("item_id", sa.String, nullable=False),
        sa.Column("version", sa.String, nullable=False),
        sa.Column("judged_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("value", sa.Double, nullable=False),
        *(sa.Column(name, sa.Double) for name in ("expected", "sd", "low", "high")),
        sa.Column("is_covered", sa.Boolean),
        *(sa.Column(name, sa.Double) for name in ("crps", "pit", "liked_probability")),
        sa.Column("is_liked", sa.Boolean),
        sa.Column("position", sa.Integer),
    )
    op.create_index("ix_judged_user_id", "judged", ["user_id"])
    op.create_index("ix_judged_judged_at", "judged", ["judged_at"])
    op.create_table(
        "trials",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("version", sa.String, nullable=False),
        sa.Column("share", sa.Double, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True)),
        sa.Column("outcome", sa.String),
    )


def downgrade() -> None:
    for name in ("trials", "judged", "shown"):
        op.drop_table(name)
