"""Records on disk: temporary name, fsync, rename, and a manifest with sha256 last. No pickles."""
