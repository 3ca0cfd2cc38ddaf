"""By how much limits are passed."""
