"""The migrations: `alembic upgrade head`, as often as one likes, also after an interruption."""
