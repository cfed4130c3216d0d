"""An index to find old idempotency keys, which are dropped with every new one."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_index("ix_answered_answered_at", "answered", ["answered_at"])


def downgrade() -> None:
    op.drop_index("ix_answered_answered_at", "answered")
