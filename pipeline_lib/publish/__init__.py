"""What leaves a run: reports, exports, releases, streams."""
