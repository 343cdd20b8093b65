"""Groups: members, and what they have committed."""
