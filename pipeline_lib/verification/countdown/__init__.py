"""Judge of Countdown solutions."""
