"""How Alembic runs the migrations: on the connection that the store gives it."""

from __future__ import annotations

from alembic import context

from tastespace.service.store import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,  # SQLite cannot change a table in place
)
with context.begin_transaction():
    context.run_migrations()
