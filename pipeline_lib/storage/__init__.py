"""Records on disk: temporary name, fsync, rename, manifest with sha256 last. Never pickles."""
