"""PRR: K hypotheses held in parallel by one tiny recursive network, on TRM and HRM data."""
