"""Results as something a person reads."""
