"""How a mirror is watched and paused."""
