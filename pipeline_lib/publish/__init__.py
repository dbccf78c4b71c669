"""Reports, exports, releases and Kafka streams of runs."""
