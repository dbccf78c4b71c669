"""An engine from its start to its end: launch, readiness, watch, restart, adapters, stop."""
